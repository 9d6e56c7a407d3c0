/* Functions of the ESP32-C3's ROM that start-up code calls, written from their documented behaviour. `words` in
   harness/chips/esp32c3.toml is this file, compiled, and `ci/chips esp32c3` compares them. A function that is not here is an illegal
   instruction. */
#include <stdint.h>

typedef uint32_t word;

/* The table of jumps that firmware is linked against: each function at its address in the ROM. */
__asm__(".section .table,\"ax\"\n"
        ".macro at address, function\n.org \\address - 0x40000000\n.option norvc\nj \\function\n.endm\n"
        "at 0x40000018, reset_reason\n"
        "at 0x40000050, delay_us\n"
        "at 0x40000354, memset\n"
        "at 0x40000358, memcpy\n"
        "at 0x4000035c, memmove\n"
        "at 0x40000360, memcmp\n"
        "at 0x40000588, nothing\n"
        "at 0x400007b4, __divdi3\n"
        "at 0x4000083c, __moddi3\n"
        "at 0x400008ac, __udivdi3\n"
        "at 0x400008bc, __umoddi3\n"
        "at 0x40001954, nothing\n"
        "at 0x40001958, nothing\n"
        "at 0x4000195c, nothing\n"
        "at 0x40001960, nothing\n"
        /* The functions follow the table. */
        ".option rvc\n");

word reset_reason(word cpu) { (void)cpu; return 1; }
word nothing(void) { return 0; }

static word cycles(void)
{
    word value;
    __asm__ volatile("csrr %0, 0x7e2" : "=r"(value));
    return value;
}

/* At 160 MHz, whatever the clock is. */
void delay_us(word us)
{
    for (word start = cycles(); cycles() - start < us * 160;)
        ;
}

void *memset(void *to, int value, word bytes)
{
    for (uint8_t *byte = to; bytes--;)
        *byte++ = (uint8_t)value;
    return to;
}

void *memcpy(void *to, const void *from, word bytes)
{
    const uint8_t *source = from;
    for (uint8_t *byte = to; bytes--;)
        *byte++ = *source++;
    return to;
}

void *memmove(void *to, const void *from, word bytes)
{
    uint8_t *byte = to;
    const uint8_t *source = from;
    if (byte <= source)
        return memcpy(to, from, bytes);
    while (bytes--)
        byte[bytes] = source[bytes];
    return to;
}

int memcmp(const void *one, const void *two, word bytes)
{
    const uint8_t *a = one, *b = two;
    for (; bytes; bytes--, a++, b++)
        if (*a != *b)
            return *a - *b;
    return 0;
}

/* Quotient, and what is left in the numerator. */
static uint64_t divide(uint64_t *numerator, uint64_t denominator)
{
    uint64_t left = 0, quotient = 0;
    for (int bit = 0; bit < 64; bit++) {
        left = left << 1 | *numerator >> 63;
        *numerator <<= 1;
        quotient <<= 1;
        if (left >= denominator) {
            left -= denominator;
            quotient |= 1;
        }
    }
    *numerator = left;
    return quotient;
}

uint64_t __udivdi3(uint64_t numerator, uint64_t denominator) { return divide(&numerator, denominator); }

uint64_t __umoddi3(uint64_t numerator, uint64_t denominator)
{
    divide(&numerator, denominator);
    return numerator;
}

int64_t __divdi3(int64_t numerator, int64_t denominator)
{
    uint64_t top = numerator < 0 ? -(uint64_t)numerator : (uint64_t)numerator;
    uint64_t bottom = denominator < 0 ? -(uint64_t)denominator : (uint64_t)denominator;
    uint64_t quotient = divide(&top, bottom);
    return (int64_t)((numerator ^ denominator) < 0 ? -quotient : quotient);
}

int64_t __moddi3(int64_t numerator, int64_t denominator)
{
    uint64_t top = numerator < 0 ? -(uint64_t)numerator : (uint64_t)numerator;
    divide(&top, denominator < 0 ? -(uint64_t)denominator : (uint64_t)denominator);
    return (int64_t)(numerator < 0 ? -top : top);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
