/* STM32F429: over-drive, two banks of flash, the timers' prescaler of RCC, and the flags of the RTC. It begins as the STM32F407. */
#define LINES 91
#include "chip.h"
#include "device.h"

enum { RCC = 0x40023800, PWR = 0x40007000, FLASH = 0x40023c00, RTC = 0x40002800, TIM2 = 0x40000000 };

static const uint32_t words[] = { 0x08008000, 0x080c0000, 0x080e0000, 0x08100000, 0x08103ffc, 0x08104000, 0x081e0000, 0x081ffffc };
enum { WORDS = sizeof words / sizeof *words };

static void program(void)
{
    REG(FLASH + 0x10) = 2 << 8 | 1;
    for (int i = 0; i < WORDS; i++)
        REG(words[i]) = 0;
    REG(FLASH + 0x10) = 0;
}

/* Words that are erased, one bit each. */
static uint32_t erased(void)
{
    uint32_t all = 0;
    for (int i = 0; i < WORDS; i++)
        all |= (uint32_t)(REG(words[i]) == 0xffffffff) << i;
    return all;
}

static uint32_t erase(uint32_t how)
{
    program();
    REG(FLASH + 0x10) = how;
    REG(FLASH + 0x10) |= 1 << 16;
    while (REG(FLASH + 0xc) & 1 << 16)
        ;
    return erased();
}

static void flash(void)
{
    REG(FLASH + 4) = 0x45670123;
    REG(FLASH + 4) = 0xcdef89ab;
    check("the last sector of the first bank is erased", erase(2 | 11 << 3) == 0x04);
    check("the first sector of the second bank is erased", erase(2 | 16 << 3) == 0x18);
    check("the second one is erased", erase(2 | 17 << 3) == 0x20);
    check("the last one is erased", erase(2 | 27 << 3) == 0xc0);
    check("the second bank is erased", erase(1 << 15) == 0xf8);
}

/* TIM2 counts for as long as SysTick counts so much. */
static uint32_t counted(uint32_t timpre)
{
    REG(RCC + 0x8c) = timpre << 24;
    REG(TIM2) = 1;
    REG(0xe000e014) = 0xffffff;
    REG(0xe000e018) = 0;
    REG(0xe000e010) = 5;
    REG(TIM2 + 0x24) = 0;
    while (0xffffff - REG(0xe000e018) < 100000)
        ;
    return REG(TIM2 + 0x24);
}

static void rtc(void)
{
    REG(RTC + 0x24) = 0xca;
    REG(RTC + 0x24) = 0x53;
    REG(RTC + 0xc) = 0xffffffff;
    check("the RTC takes a while", !(REG(RTC + 0xc) & 1 << 6));
    while (!(REG(RTC + 0xc) & 1 << 6))
        ;
    REG(RTC + 4) = 0x261130;
    REG(RTC + 0xc) = ~0x80u;
    while (REG(RTC + 0xc) & 1 << 6)
        ;
    check("its calendar is initialised", REG(RTC + 0xc) & 1 << 4);
    REG(RTC + 0xc) = ~0xa0u;
    check("its registers are not yet those of the calendar", !(REG(RTC + 0xc) & 1 << 5));
    while (!(REG(RTC + 0xc) & 1 << 5))
        ;
    REG(RTC + 0x14) = 1;
    REG(RTC + 8) = 3 | 1 << 10;
    REG(0xe000e018) = 0;
    while (!(REG(RTC + 0xc) & 1 << 10))
        ;
    /* Two periods of 16,384 Hz at 168 MHz, less what the two writes took. */
    const uint32_t ticks = 0xffffff - REG(0xe000e018);
    check("its wakeup timer counts the crystal", ticks > 20000 && ticks < 20700);
}

int main(void)
{
    REG(PWR) |= 1 << 16;
    check("over-drive takes a while", !(REG(PWR + 4) & 1 << 16));
    while (!(REG(PWR + 4) & 1 << 16))
        ;
    REG(PWR) |= 1 << 17;
    while (!(REG(PWR + 4) & 1 << 17))
        ;
    flash();
    const uint32_t half = counted(0), all = counted(1);
    check("timers count half of the clock", half >= 50000 && half < 50100);
    check("timers count the clock with TIMPRE", all >= 100000 && all < 100100);
    rtc();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
