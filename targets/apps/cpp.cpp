// C++ names as firmware has them: namespaces, templates with several arguments, virtual calls, lambdas,
// inlined methods, operators, a static constructor; and one name as older Rust compilers mangle.
extern "C" {
#include <stdint.h>
#include "text.h"
}

// rustc's legacy mangling: core::fmt::Write::write_fmt
int rust_write_fmt(int value) __asm__("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE");
__attribute__((noipa)) int rust_write_fmt(int value) { return value * 3 + 1; }

extern "C" void __cxa_pure_virtual() { for (;;) {} }
void operator delete(void *) noexcept {}
void operator delete(void *, decltype(sizeof 0)) noexcept {}

namespace firmware {

template <typename T, unsigned Size> class Ring {
public:
    inline bool push(T value)
    {
        if (count_ == Size)
            return false;
        items_[(first_ + count_++) % Size] = value;
        return true;
    }
    inline T pop()
    {
        T value = items_[first_];
        first_ = (first_ + 1) % Size;
        count_--;
        return value;
    }
    inline bool empty() const { return count_ == 0; }

private:
    T items_[Size] = {};
    unsigned first_ = 0, count_ = 0;
};

struct Vector {
    int x, y;
    __attribute__((noinline)) Vector operator+(const Vector &other) const { return { x + other.x, y + other.y }; }
    Vector operator*(int factor) const { return { x * factor, y * factor }; }
};

namespace drivers {

class Sensor {
public:
    virtual ~Sensor() = default;
    virtual int read(int time) const = 0;
};

class Thermometer final : public Sensor {
public:
    explicit Thermometer(int offset) : offset_(offset) {}
    __attribute__((noinline)) int read(int time) const override { return (time * 7 + offset_) % 101; }

private:
    int offset_;
};

class Barometer final : public Sensor {
public:
    __attribute__((noinline)) int read(int time) const override { return (time * 13) % 997; }
};

} // namespace drivers

template <typename Value, typename Function, int Rounds>
__attribute__((noinline)) Value fold(Value start, Function function)
{
    for (int i = 0; i < Rounds; i++)
        start = function(start, i);
    return start;
}

namespace {
drivers::Thermometer thermometer(17);
drivers::Barometer barometer;
} // namespace

__attribute__((noinline)) unsigned measure(const drivers::Sensor *const *sensors, int count, int time)
{
    Ring<int, 8> ring;
    unsigned sum = 0;
    for (int i = 0; i < count; i++)
        ring.push(sensors[i]->read(time));
    while (!ring.empty())
        sum = sum * 31u + static_cast<unsigned>(ring.pop());
    return sum;
}

} // namespace firmware

const firmware::drivers::Sensor *const volatile sensors[2] = { &firmware::thermometer, &firmware::barometer };

extern "C" int main()
{
    using namespace firmware;
    print("cpp: virtual calls, templates, lambdas\n");
    const drivers::Sensor *list[] = { sensors[0], sensors[1], sensors[0] };
    unsigned sum = 0;
    auto step = [&list](unsigned s, int i) __attribute__((noinline)) { return s * 5u + measure(list, 3, i); };
    sum += fold<unsigned, decltype(step), 20000>(1u, step);
    Vector position{ 1, 2 };
    for (int i = 0; i < 20000; i++)
        position = position + Vector{ i, -i } * (i & 3);
    int rust = 0;
    for (int i = 0; i < 20000; i++)
        rust = rust_write_fmt(rust) & 0xffff;
    print("sum %08x, position %d %d, rust %d\n", sum, position.x, position.y, rust);
    return 0;
}
// SPDX-License-Identifier: MIT OR Apache-2.0
