/* RP2040: what pico-sdk takes from the boot ROM, and what its drivers wait for: the ADC, and the SPI's answer. */
#define LINES 26
#include "chip.h"
#include "device.h"

enum { SPI0 = 0x4003c000, ADC = 0x4004c000 };

typedef void *(*lookup)(const uint16_t *table, uint32_t code);
/* Address of the ROM; the compiler takes a constant of 0 for a mistake. */
static volatile uintptr_t rom;
#define HALF(offset) ((uintptr_t) * (const volatile uint16_t *)(rom + (offset)))
#define MARK (REG(rom + 0x10) << 8)

static void *function(const char *code)
{
    return ((lookup)HALF(0x18))((const uint16_t *)HALF(0x14), (uint32_t)code[0] | (uint32_t)code[1] << 8);
}

static int bits(const char *code, uint32_t value) { return (int)((uint32_t (*)(uint32_t))function(code))(value); }

static int same(const char *one, const char *other, int count)
{
    for (int i = 0; i < count; i++)
        if (one[i] != other[i])
            return 0;
    return 1;
}

int main(void)
{
    static char from[12] __attribute__((aligned(4))) = "eleven char", to[12] __attribute__((aligned(4)));
    typedef void *(*copy)(void *, const void *, uint32_t);
    typedef void *(*fill)(void *, uint8_t, uint32_t);
    check("the ROM has its mark", MARK == 0x01754d00);
    check("a function that is not there is null", function("??") == 0);
    check("memory is copied", ((copy)function("MC"))(to, from, 11) == to && same(to, from, 11) && !to[11]);
    check("words are copied", ((copy)function("C4"))(to, from + 4, 4) == to && same(to, "en c", 4) && to[4] == 'e');
    check("memory is filled", ((fill)function("MS"))(to + 1, 'x', 2) == to + 1 && same(to, "exxc", 4));
    check("words are filled", ((fill)function("S4"))(to, 'y', 10) == to && same(to, "yyyyyyyyyyr", 11));
    check("bits are counted", bits("P3", 0xf0000011) == 6 && bits("P3", 0) == 0);
    check("bits are reversed", bits("R3", 0x80000006) == 0x60000001);
    check("zeros are counted", bits("L3", 0x00800000) == 8 && bits("L3", 0) == 32 && bits("T3", 8) == 3 && bits("T3", 0) == 32);
    REG(rom + 0x10) = 0;
    check("the ROM stays as it is", MARK == 0x01754d00);

    REG(ADC) = 1;
    while (!(REG(ADC) & 1 << 8))
        ;
    REG(ADC) = 1 | 1 << 2 | 2 << 12;
    check("a conversion takes a while", !(REG(ADC) & 1 << 8));
    while (!(REG(ADC) & 1 << 8))
        ;
    check("a conversion has the input's value", REG(ADC + 4) == 1234);

    check("SPI has room", (REG(SPI0 + 0xc) & 7) == 3);
    REG(SPI0 + 8) = 'a';
    check("SPI answers", REG(SPI0 + 0xc) & 4 && REG(SPI0 + 8) == 0xff && !(REG(SPI0 + 0xc) & 4));
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
