// C++ as Arduino's libraries have it, without Arduino: static objects with constructors and a destructor, virtual calls
// through a base class, templates, a function object. It prints by polling USART0 and returns from main.
#include <avr/io.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// What C++ wants and avr-libc lacks.
extern "C" void __cxa_pure_virtual() { abort(); }
void operator delete(void *object) { free(object); }

namespace {

class Output {
public:
    virtual void write(uint8_t byte) = 0;
    void print(const char *text)
    {
        while (*text)
            write(*text++);
    }
    void print(const char *name, uint32_t number)
    {
        char digits[12];
        print(name);
        write(' ');
        print(ultoa(number, digits, 10));
        write('\n');
    }
};

class Serial : public Output {
public:
    Serial() { UCSR0B = 1 << TXEN0; }
    ~Serial() { print("goodbye\n"); }
    void write(uint8_t byte) override
    {
        while (!(UCSR0A & (1 << UDRE0)))
            ;
        UDR0 = byte;
    }
};

// Counts what is written, and the bits of it.
class Counter : public Output {
public:
    void write(uint8_t byte) override
    {
        bytes_++;
        for (; byte; byte &= byte - 1)
            bits_++;
    }
    uint16_t bytes_ = 0, bits_ = 0;
};

class Shape {
public:
    virtual ~Shape() {}
    virtual uint16_t area() const = 0;
    virtual uint8_t corners() const { return 4; }
};

class Rectangle : public Shape {
public:
    Rectangle(uint8_t width, uint8_t height) : width_(width), height_(height) {}
    uint16_t area() const override { return width_ * height_; }

protected:
    uint8_t width_, height_;
};

class Square final : public Rectangle {
public:
    explicit Square(uint8_t side) : Rectangle(side, side) {}
    uint16_t area() const override { return Rectangle::area() + 1; }
};

class Triangle final : public Rectangle {
public:
    using Rectangle::Rectangle;
    uint16_t area() const override { return Rectangle::area() / 2; }
    uint8_t corners() const override { return 3; }
};

template <typename Item, uint8_t SIZE> class Ring {
public:
    __attribute__((noinline)) bool push(Item item)
    {
        if (used_ == SIZE)
            return false;
        items_[(first_ + used_++) % SIZE] = item;
        return true;
    }
    __attribute__((noinline)) Item pop()
    {
        Item item = items_[first_];
        first_ = (first_ + 1) % SIZE;
        used_--;
        return item;
    }
    bool is_empty() const { return used_ == 0; }

private:
    Item items_[SIZE] = {};
    uint8_t first_ = 0, used_ = 0;
};

template <uint8_t DEPTH> struct Tower {
    static __attribute__((noinline)) uint16_t climb(uint16_t x) { return Tower<DEPTH - 1>::climb(x * 3 + DEPTH) ^ x; }
};
template <> struct Tower<0> {
    static __attribute__((noinline)) uint16_t climb(uint16_t x) { return x; }
};

template <typename Function> __attribute__((noinline)) uint32_t fold(uint16_t turns, Function function)
{
    uint32_t sum = 0;
    for (uint16_t turn = 0; turn < turns; turn++)
        sum = function(sum, turn);
    return sum;
}

// Constructed before main in this order.
Serial serial;
Counter counter;
Rectangle rectangle(7, 9);
Square square(12);
Triangle triangle(10, 5);
const Shape *const volatile shapes[] = {&rectangle, &square, &triangle};

__attribute__((noinline)) uint16_t measure(uint8_t seed)
{
    Ring<uint16_t, 5> ring;
    for (uint8_t index = 0; index < 6; index++) {
        const Shape *shape = shapes[(index + seed) % 3];
        ring.push(shape->area() * shape->corners());
    }
    uint16_t sum = 0;
    while (!ring.is_empty())
        sum = sum * 31 + ring.pop();
    return sum;
}

} // namespace

int main()
{
    uint8_t factor = 3;
    uint32_t sum = fold(120, [&factor](uint32_t sum, uint16_t turn) { return sum * factor + measure(turn); });
    serial.print("measured", sum);
    serial.print("tower", fold(60, [](uint32_t sum, uint16_t turn) { return sum + Tower<5>::climb(turn); }));
    Output *volatile output = &counter;
    for (uint8_t turn = 0; turn < 8; turn++)
        output->print("counted", turn * 1000ul);
    serial.print("bytes", counter.bytes_);
    serial.print("bits", counter.bits_);
    return 0;
}
// SPDX-License-Identifier: MIT OR Apache-2.0
