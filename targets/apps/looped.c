/* A function that loops to its own first instruction (turns, in looped-*.S), called over and over from one place: it
   returns, or it is left by a jump out of it, and called again with the same stack. The timeline has to tell a turn of
   its loop from a call. What harness/tests/timeline/loops.rs knows: ROUNDS calls, of which it returns from a third, and
   as many again from an interrupt. */
#include "board.h"
#include "text.h"

enum { ROUNDS = 60, TICKS = 20 };

/* Takes x turns. Then it leaves by leave() where `leaves` is set. */
uint32_t turns(uint32_t x, uint32_t leaves);
_Noreturn void leave(void);

static void *landing[5];
static volatile uint32_t ticks, returned;

_Noreturn void leave(void) { __builtin_longjmp(landing, 1); }

static __attribute__((noipa)) void both(uint32_t x, uint32_t leaves)
{
    turns(x, leaves);
    returned++;
}

void TIMER_HANDLER(void)
{
    /* From the same place as what it interrupts, which may be in its loop. */
    if (ticks < TICKS) {
        ticks++;
        both(ticks, 0);
    }
}

static __attribute__((noipa)) void round_of(uint32_t i)
{
    if (__builtin_setjmp(landing) == 0)
        both(i * 7 + 1, i % 3);
}

int main(void)
{
    timer_start(5000);
    irq_enable();
    for (uint32_t i = 0; i < ROUNDS || ticks < TICKS; i++)
        round_of(i % ROUNDS);
    timer_stop();
    print("looped: %u returned, %u ticks\n", (unsigned)returned, (unsigned)ticks);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
