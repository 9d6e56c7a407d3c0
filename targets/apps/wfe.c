/* Idles by wfe, in loops of known lengths: QEMU goes on at once, and a chip would sleep from a loop's first wfe to its
   sev. */
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
    for (int i = 0; i < SLEEPS; i++) {
        doze(TURNS);
        __asm__ volatile("wfe");
    }
    timer_start(1000);
    irq_enable();
    until_ticks(TICKS);
    timer_stop();
    print("wfe: %u ticks\n", (unsigned)ticks);
    board_exit(0);
}
