/* Sleeps between ticks, as most firmware does: thousands of wfi, each after work of another length. The
   timer's value after each wake-up goes into the result, so that time itself is checked. */
#include "board.h"
#include "text.h"
#include "work.h"

enum { TICKS = 3000 };

#ifdef __riscv
static inline uint32_t timer_value(void) { return *(volatile uint32_t *)0x0200bff8u; }
#else
static inline uint32_t timer_value(void) { return *(volatile uint32_t *)0xe000e018u; }
#endif

static volatile uint32_t ticks;

void TIMER_HANDLER(void) { ticks++; }

static __attribute__((noipa)) uint32_t work(uint32_t x, uint32_t turns)
{
    while (turns--)
        x = mix(x, turns);
    return x;
}

int main(void)
{
    uint32_t x = 1, seed = 1;
    timer_start(1000);
    irq_enable();
    while (ticks < TICKS) {
        wait_for_interrupt();
        x = mix(x, timer_value());
        x = work(x, xorshift(&seed) & 127);
    }
    timer_stop();
    print("idle: %u ticks, sum %08x\n", (unsigned)ticks, (unsigned)x);
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
