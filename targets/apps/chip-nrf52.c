/* nRF52840: that SysTick, TIMER and RTC count one time; a button at P0.11 by GPIOTE, a LED at P1.10. */
#define LINES 48
#include "chip.h"

enum { TIMER = 0x40008000, RTC = 0x4000b000, GPIOTE = 0x40006000, P0 = 0x50000500, P1 = 0x50000800 };

static volatile uint32_t presses;

static void gpiote(void)
{
    REG(GPIOTE + 0x108) = 0; /* EVENTS_IN[2] */
    presses++;
    REG(P1 + 0x008) = 1 << 10; /* OUTSET */
}

static uint32_t us(void)
{
    REG(TIMER + 0x040) = 1; /* CAPTURE[0] */
    return REG(TIMER + 0x540);
}

int main(void)
{
    use_table();
    handle(6, gpiote);

    REG(TIMER + 0x508) = 3; /* 32 bits, 1 MHz */
    REG(TIMER + 0x510) = 4;
    REG(TIMER) = 1;
    REG(RTC) = 1;
    REG(0xe000e014) = 64000 - 1;
    REG(0xe000e018) = 0;
    REG(0xe000e010) = 5;
    uint32_t begin_us = us(), begin = REG(RTC + 0x504);
    for (int ms = 0; ms < 10; ms++)
        while (!(REG(0xe000e010) & 1 << 16))
            ;
    uint32_t ticks = REG(RTC + 0x504) - begin, passed_us = us() - begin_us;
    check("10 ms of SysTick are 10 ms of TIMER", passed_us >= 9990 && passed_us <= 10010);
    check("10 ms of SysTick are 327 or 328 ticks of RTC", ticks == 327 || ticks == 328);
    REG(0xe000e010) = 0;

    REG(P1 + 0x700 - 0x500 + 10 * 4) = 1; /* PIN_CNF[10]: an output */
    REG(GPIOTE + 0x518) = 1 | 11 << 8 | 1 << 16; /* CONFIG[2]: P0.11, rising edges */
    REG(GPIOTE + 0x304) = 1 << 2;
    REG(0xe000e100) = 1 << 6;
    while (!presses)
        __asm__ volatile("wfi");
    check("a button raises GPIOTE's interrupt", presses == 1 && REG(P0 + 0x010) == 1 << 11);
    check("a pin reads as it is set", REG(P1 + 0x010) == 1 << 10);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
