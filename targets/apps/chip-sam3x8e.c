/* SAM3X8E: the PLL, timers alone and chained, edges of a pin, an ADC's value of the chip file, the flash controller's commands. */
#define LINES 45
#include "chip.h"
#include "device.h"

enum { PMC = 0x400e0600, TC = 0x40080000, PIOA = 0x400e0e00, ADC = 0x400c0000, RTT = 0x400e1a30, TRNG = 0x400bc000 };

static void wait_for(uint32_t bit)
{
    while (!(REG(PMC + 0x68) & bit))
        ;
}

/* The crystal of 12 MHz, and PLLA at 168 MHz, by 2. */
static void clocks(void)
{
    REG(PMC + 0x20) = 0x370809;
    wait_for(1 << 0);
    REG(PMC + 0x20) = 0x1370809;
    wait_for(1 << 16);
    REG(PMC + 0x28) = 1 << 29 | 13 << 16 | 0x3f << 8 | 1;
    check("a PLL takes a while", !(REG(PMC + 0x68) & 1 << 1));
    wait_for(1 << 1);
    REG(PMC + 0x30) = 0x11;
    REG(PMC + 0x30) = 0x12;
    wait_for(1 << 3);
}

static volatile uint32_t ticks, edges;

static void tick(void)
{
    if (REG(TC + 0x20) & 1 << 4)
        ticks++;
}

static void edge(void)
{
    edges += REG(PIOA + 0x4c) >> 5 & 1;
}

static uint32_t systick(void) { return 0xffffff - REG(0xe000e018); }

static void begin(void)
{
    REG(0xe000e010) = 0;
    REG(0xe000e014) = 0xffffff;
    REG(0xe000e018) = 0;
    REG(0xe000e010) = 5;
}

/* Channel 0 counts half of the clock up to RC, and then the pulses of channel 1. */
static void timers(void)
{
    REG(TC + 4) = 1 << 15 | 2 << 13;
    REG(TC + 0x1c) = 42000;
    REG(TC + 0x24) = 1 << 4;
    begin();
    REG(TC) = 5;
    while (ticks < 3)
        ;
    check("a timer counts half of the clock", systick() >= 252000 && systick() < 253000);
    REG(TC) = 2;
    check("its clock is off, and reading its flags cleared them", (REG(TC + 0x20) & 0x100ff) == 0);

    REG(TC + 0xc4) = 2;
    REG(TC + 4) = 5 | 1 << 15;
    REG(TC + 0x44) = 1 << 15 | 2 << 13 | 3 << 18;
    REG(TC + 0x5c) = 21;
    REG(TC + 0x28) = 1 << 4;
    REG(TC + 0x14) = 1000;
    begin();
    REG(TC) = 5;
    REG(TC + 0x40) = 5;
    while (!(REG(TC + 0x20) & 1 << 2))
        ;
    check("a chained timer counts microseconds", systick() >= 83800 && systick() < 85000);
}

int main(void)
{
    clocks();
    use_table();
    handle(27, tick);
    handle(11, edge);
    REG(0xe000e100) = 1 << 27 | 1 << 11;
    timers();

    REG(PIOA + 0x10) = 1 << 5;
    REG(PIOA + 0x40) = 1 << 5;
    REG(PIOA + 0x30) = 1 << 5;
    check("an output is set", REG(PIOA + 0x3c) & 1 << 5);
    REG(PIOA + 0x34) = 1 << 5;
    check("both edges interrupt", edges == 2);
    REG(PIOA + 0xb0) = 1 << 5;
    REG(PIOA + 0xd4) = 1 << 5;
    REG(PIOA + 0x30) = 1 << 5;
    REG(PIOA + 0x34) = 1 << 5;
    check("one edge interrupts where that is selected", edges == 3);

    REG(ADC + 0x10) = 1 << 7;
    REG(ADC) = 2;
    check("a conversion takes a while", !(REG(ADC + 0x30) & 1 << 24));
    while (!(REG(ADC + 0x30) & 1 << 24))
        ;
    check("a conversion has the input's value", REG(ADC + 0x6c) == 1234 && REG(ADC + 0x20) == 1234 && !REG(ADC + 0x30));

    /* The ROM's function takes a bank and a command. */
    static volatile uintptr_t rom = 0x100008;
    uint32_t (*const command)(uint32_t, uint32_t) = (uint32_t (*)(uint32_t, uint32_t))REG(rom);
    check("the flash is ready", command(1, 0x5a000000) == 1);
    check("it is not while its identity is shown", command(1, 0x5a00000e) == 0 && command(1, 0x5a00000f) == 1);
    REG(TRNG) = 0x524e4701;
    while (!(REG(TRNG + 0x1c) & 1))
        ;
    check("random numbers differ", REG(TRNG + 0x50) != REG(TRNG + 0x50));
    REG(RTT) = 1 << 18 | 32;
    begin();
    while (REG(RTT + 8) < 5)
        ;
    check("RTT counts the slow clock", systick() > 400000 && systick() < 420000);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
