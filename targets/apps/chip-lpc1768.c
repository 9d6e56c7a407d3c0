/* LPC1768: the boot ROM's In-Application Programming, the PLL, a timer, interrupts of UART3 by IIR, and edges of a pin. */
#define LINES 35
#include "chip.h"
#include "device.h"

enum { SC = 0x400fc000, TIMER = 0x40004000, UART = 0x4009c000, GPIO = 0x2009c000, GPIOINT = 0x40028080 };
enum { SECTOR_17 = 0x18000, PAGE = 256 };

static uint32_t result[5];

static uint32_t iap(uint32_t command, uint32_t one, uint32_t two, uint32_t three)
{
    uint32_t asked[4] = { command, one, two, three };
    /* The compiler must not know what is at the address. */
    static volatile uintptr_t rom = 0x1fff1ff1;
    ((void (*)(uint32_t *, uint32_t *))rom)(asked, result);
    return result[0];
}

static void flash(void)
{
    static uint32_t page[PAGE / 4];
    const uint32_t from = (uint32_t)page;
    for (int i = 0; i < PAGE / 4; i++)
        page[i] = 0x1000u + (uint32_t)i;
    check("the ROM says the part", iap(54, 0, 0, 0) == 0 && result[1] == 0x26013f37);
    check("a command that is not there fails", iap(77, 0, 0, 0) == 1);
    check("a sector is blank", iap(50, 17, 17, 0) == 0 && iap(53, 16, 17, 0) == 0);
    check("a page is programmed", iap(51, SECTOR_17, from, PAGE) == 0 && REG(SECTOR_17 + 4) == 0x1001);
    check("the sector is not blank", iap(53, 16, 17, 0) == 8 && result[1] == SECTOR_17 && result[2] == 0x1000);
    check("the page is the same", iap(56, SECTOR_17, from, PAGE) == 0);
    page[3] = 0;
    check("the page is another", iap(56, SECTOR_17, from, PAGE) == 10 && result[1] == 12);
    REG(SECTOR_17) = 0;
    check("a store does not program", REG(SECTOR_17) == 0x1000);
    check("a sector is erased", iap(52, 17, 17, 0) == 0 && REG(SECTOR_17 + 4) == 0xffffffff);
    static volatile uintptr_t entry = 4;
    check("the first sector is not", REG(entry) != 0xffffffff);
}

/* The crystal of 12 MHz, and the PLL at 2 * 100 * 12 / 6 = 400 MHz, by 4. */
static void clocks(void)
{
    REG(SC + 0x1a0) = 1 << 5;
    while (!(REG(SC + 0x1a0) & 1 << 6))
        ;
    REG(SC + 0x10c) = 1;
    REG(SC + 0x84) = 99 | 5 << 16;
    REG(SC + 0x80) = 1;
    check("a PLL waits to be fed", !(REG(SC + 0x88) & 1 << 24));
    REG(SC + 0x8c) = 0xaa;
    REG(SC + 0x8c) = 0x55;
    while (!(REG(SC + 0x88) & 1 << 26))
        ;
    REG(SC + 0x104) = 3;
    REG(SC + 0x80) = 3;
    REG(SC + 0x8c) = 0xaa;
    REG(SC + 0x8c) = 0x55;
    check("a PLL is connected", (REG(SC + 0x88) & 7 << 24) == 7 << 24);
}

/* SysTick and the timer count the same millisecond, the timer at a quarter of the clock. */
static void timer(void)
{
    REG(TIMER + 0x18) = 25000;
    REG(TIMER + 0x14) = 1 | 1 << 2;
    REG(0xe000e010) = 0;
    REG(0xe000e014) = 0xffffff;
    REG(0xe000e018) = 0;
    REG(0xe000e010) = 5;
    REG(TIMER + 4) = 1;
    while (!(REG(TIMER) & 1))
        ;
    const uint32_t ticks = 0xffffff - REG(0xe000e018);
    check("a timer counts a quarter of the clock", ticks >= 100000 && ticks < 100200);
    check("a match stops it", !(REG(TIMER + 4) & 1) && REG(TIMER + 8) == 25000);
}

static volatile uint32_t causes[4], count, rises, falls;

static void serial(void)
{
    const uint32_t iir = REG(UART + 8);
    if (count < 4)
        causes[count] = iir & 0xf;
    if (++count < 3)
        REG(UART) = '-';
    else
        REG(UART + 4) = 0;
}

static void edge(void)
{
    rises += REG(GPIOINT + 4) >> 18 & 1;
    falls += REG(GPIOINT + 8) >> 18 & 1;
    REG(GPIOINT + 0xc) = 1 << 18;
}

static void interrupts(void)
{
    use_table();
    handle(8, serial);
    handle(21, edge);
    REG(0xe000e100) = 1 << 8 | 1 << 21;
    REG(UART + 0xc) = 0x83;
    REG(UART + 4) = 3; /* DLM */
    REG(UART + 0xc) = 3;
    check("IER is not the divisor", REG(UART + 4) == 0 && (REG(UART + 8) & 0xf) == 1);
    REG(UART + 4) = 2;
    check("an empty transmitter interrupts by its cause", count == 3 && causes[0] == 2 && causes[2] == 2);
    check("no cause is left", (REG(UART + 8) & 0xf) == 1);

    REG(GPIO) = 1 << 18;
    REG(GPIOINT + 0x10) = REG(GPIOINT + 0x14) = 1 << 18;
    REG(GPIO + 0x18) = 1 << 18;
    REG(GPIO + 0x1c) = 1 << 18;
    REG(GPIO + 0x14) = 1 << 18;
    check("edges of a pin interrupt", rises == 2 && falls == 1 && REG(GPIO + 0x14) & 1 << 18);
}

int main(void)
{
    flash();
    clocks();
    timer();
    interrupts();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
