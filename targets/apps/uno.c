/* Arduino Uno: what AVR's compilers make of calls, loops, tables, bits that skip an instruction, and frames. It prints by
   polling USART0, and ends as avr-libc's exit does: interrupts off, and a loop. */
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "usart.h"

static __attribute__((noinline)) uint16_t fibonacci(uint16_t n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

/* Of flash. */
static const uint8_t primes[] PROGMEM = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};

static __attribute__((noinline)) uint16_t sum_of_table(void)
{
    uint16_t sum = 0;
    for (uint8_t index = 0; index < sizeof primes; index++)
        sum += pgm_read_byte(&primes[index]);
    return sum;
}

/* Each bit is a skip. */
static __attribute__((noinline)) uint8_t count_bits(uint8_t byte)
{
    uint8_t bits = 0;
    if (byte & 1)
        bits++;
    if (byte & 2)
        bits++;
    if (byte & 4)
        bits++;
    if (byte & 0x80)
        bits += 2;
    return bits;
}

static __attribute__((noinline)) uint16_t crc(const uint8_t *bytes, uint8_t count)
{
    uint16_t sum = 0xffff;
    while (count--) {
        sum ^= *bytes++;
        for (uint8_t bit = 0; bit < 8; bit++)
            sum = sum & 1 ? sum >> 1 ^ 0xa001 : sum >> 1;
    }
    return sum;
}

/* A frame of more than 63 bytes. */
static __attribute__((noinline)) uint16_t fill(uint8_t seed)
{
    uint8_t bytes[120];
    for (uint8_t index = 0; index < sizeof bytes; index++)
        bytes[index] = seed += 37;
    return crc(bytes, sizeof bytes);
}

typedef uint16_t operation(uint16_t, uint16_t);
static uint16_t add(uint16_t a, uint16_t b) { return a + b; }
static uint16_t multiply(uint16_t a, uint16_t b) { return a * b; }
static uint16_t divide(uint16_t a, uint16_t b) { return a / b; }
static operation *volatile operations[] = {add, multiply, divide};

static __attribute__((noinline)) uint16_t by_pointers(void)
{
    uint16_t value = 7;
    for (uint8_t turn = 0; turn < 30; turn++)
        value = operations[turn % 3](value, turn + 1);
    return value;
}

static __attribute__((noinline)) uint16_t switched(uint8_t number)
{
    switch (number) {
    case 0: return fibonacci(5);
    case 1: return sum_of_table();
    case 2: return count_bits(number);
    case 3: return 77;
    case 4: return fill(number);
    case 5: return by_pointers();
    case 6: return 4711;
    case 7: return number * 13;
    default: return 1;
    }
}

static int by_value(const void *a, const void *b) { return *(const int16_t *)a - *(const int16_t *)b; }

static __attribute__((noinline)) int16_t sorted(void)
{
    int16_t numbers[40];
    for (uint8_t index = 0; index < 40; index++)
        numbers[index] = (int16_t)(index * 7919u);
    qsort(numbers, 40, sizeof *numbers, by_value);
    return numbers[20];
}

int main(void)
{
    UCSR0B = 1 << TXEN0;
    /* A device through a pointer, as Arduino's digitalWrite has it. */
    volatile uint8_t *volatile port = &PORTB;
    *port |= 1 << 5;
    print_number("fibonacci", fibonacci(15));
    print_number("table", sum_of_table());
    uint16_t bits = 0;
    for (uint16_t byte = 0; byte < 256; byte++)
        bits += count_bits(byte);
    print_number("bits", bits);
    print_number("fill", fill(1));
    print_number("pointers", by_pointers());
    uint16_t sum = 0;
    for (uint8_t number = 0; number < 10; number++)
        sum += switched(number);
    print_number("switched", sum);
    print_number("sorted", (uint16_t)sorted());
    float root = 2;
    for (uint8_t turn = 0; turn < 5; turn++)
        root = (root + 2 / root) / 2;
    print_number("root", (uint32_t)(root * 10000));
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
