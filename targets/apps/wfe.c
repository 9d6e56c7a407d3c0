/* Idles by wfe until its timer has ticked, and then in loops of known lengths that no interrupt ends: QEMU before 11.0
   goes on at once, and what sleeps as a chip does would sleep from a loop's first wfe for ever. */
#include "board.h"
#include "text.h"

enum { SLEEPS = 20, TURNS = 100, TICKS = 10 };

static volatile uint32_t ticks;

void TIMER_HANDLER(void) { ticks++; }

/* Sets the event register, so that the next wfe of a chip goes on. */
static __attribute__((noipa)) void doze(uint32_t turns)
{
    __asm__ volatile("1: wfe\n\t subs %0, %0, #1\n\t bne 1b\n\t sev" : "+r"(turns) :: "cc", "memory");
}

static __attribute__((noipa)) void until_ticks(uint32_t count)
{
    while (ticks < count)
        __asm__ volatile("wfe" ::: "memory");
}

int main(void)
{
    timer_start(1000);
    irq_enable();
    until_ticks(TICKS);
    timer_stop();
    print("wfe: %u ticks\n", (unsigned)ticks);
    for (int i = 0; i < SLEEPS; i++) {
        /* Takes the event of the last interrupt, or of the doze before. */
        __asm__ volatile("sev\n\t wfe");
        doze(TURNS);
    }
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
