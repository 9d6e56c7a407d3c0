/* nRF52840: SAADC with two inputs and its buffer, and PPI: a timer samples and is captured by no instruction of the CPU's. A chip
   file of the test says what the inputs measure. */
#define LINES 48
#include "chip.h"

enum { SAADC = 0x40007000, TIMER0 = 0x40008000, TIMER1 = 0x40009000, RTC0 = 0x4000b000, PPI = 0x4001f000 };

static volatile uint32_t full;
static volatile uint16_t results[8];

static void saadc(void)
{
    REG(SAADC + 0x104) = 0; /* EVENTS_END */
    full++;
}

static void buffer(uint32_t count)
{
    REG(SAADC + 0x62c) = (uint32_t)results;
    REG(SAADC + 0x630) = count;
    REG(SAADC) = 1;
    while (!REG(SAADC + 0x100))
        ;
    REG(SAADC + 0x100) = 0;
}

static void sample(void)
{
    REG(SAADC + 0x108) = 0;
    REG(SAADC + 0x004) = 1;
    while (!REG(SAADC + 0x108))
        ;
}

static int alternate(int count)
{
    for (int i = 0; i < count; i++)
        if (results[i] != (i % 2 ? 77 : 1234))
            return 0;
    return 1;
}

int main(void)
{
    use_table();
    handle(7, saadc);
    REG(0xe000e100) = 1 << 7;

    REG(SAADC + 0x500) = 1;
    REG(SAADC + 0x510) = 3; /* CH[0].PSELP: AIN2 */
    REG(SAADC + 0x520) = 6; /* CH[1].PSELP: AIN5 */
    buffer(4);
    sample();
    check("a sample converts each input", REG(SAADC + 0x634) == 2 && alternate(2) && !results[2] && !REG(SAADC + 0x104));
    sample();
    check("a full buffer ends", REG(SAADC + 0x634) == 4 && alternate(4) && REG(SAADC + 0x104));
    REG(SAADC + 0x104) = 0;

    /* Each millisecond of TIMER0 samples, and captures TIMER1, until the buffer is full. */
    buffer(8);
    REG(SAADC + 0x304) = 1 << 1; /* INTENSET: END */
    REG(TIMER1 + 0x508) = REG(TIMER0 + 0x508) = 3; /* 32 bits, 1 MHz */
    REG(TIMER0 + 0x540) = 1000;
    REG(TIMER0 + 0x200) = 1; /* COMPARE[0] clears */
    REG(PPI + 0x510) = TIMER0 + 0x140;
    REG(PPI + 0x514) = SAADC + 0x004;
    REG(PPI + 0x910) = TIMER1 + 0x040;
    REG(PPI + 0x504) = 1;
    REG(TIMER1) = 1;
    REG(TIMER0) = 1;
    while (!full)
        __asm__ volatile("wfi");
    uint32_t captured = REG(TIMER1 + 0x540);
    check("a timer's event samples by PPI", full == 1 && alternate(8));
    check("a fork does a second task", captured >= 3990 && captured <= 4010);
    REG(TIMER0 + 0x004) = 1;
    REG(PPI + 0x508) = 1;
    results[0] = 0;
    buffer(2);
    REG(TIMER0) = 1;
    for (REG(TIMER1 + 0x00c) = 1; REG(TIMER1 + 0x544) < 3000; REG(TIMER1 + 0x044) = 1)
        ;
    check("a connection that is off does nothing", results[0] == 0 && full == 1 && REG(TIMER0 + 0x140));

    /* Channel 31 is fixed: RTC0's first compare starts TIMER0. */
    REG(TIMER0 + 0x004) = 1;
    REG(TIMER0 + 0x200) = 0;
    REG(TIMER0 + 0x00c) = 1;
    REG(PPI + 0x504) = 1u << 31;
    REG(RTC0 + 0x540) = 33; /* about 1 ms */
    REG(RTC0) = 1;
    for (REG(TIMER1 + 0x00c) = 1, REG(TIMER1 + 0x044) = 1; REG(TIMER1 + 0x544) < 2000; REG(TIMER1 + 0x044) = 1)
        ;
    REG(TIMER0 + 0x044) = 1;
    uint32_t since = REG(TIMER0 + 0x544);
    check("a fixed connection starts a timer", since >= 900 && since <= 1100);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
