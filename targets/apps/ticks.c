/* Work between the ticks of a timer, with divisions and branches, which take several cycles: how much of it fits between two
   ticks depends on whether the timer goes by instructions or by cycles. Then ticks of which the processor sleeps most. */
#include "board.h"
#include "text.h"

enum { HZ = 1000, TICKS = 20, SLEEPS = 5 };

static volatile uint32_t ticks, turns;
void TIMER_HANDLER(void) { ticks++; }

#define NOIPA __attribute__((noipa))

static NOIPA uint32_t work(uint32_t x)
{
    for (uint32_t i = 1; i < 20; i++)
        x = x % (i + 7) ? x / i + 1013 : x + i * 4099;
    return x;
}

static NOIPA void busy(void)
{
    uint32_t x = 1;
    while (ticks < TICKS) {
        x = work(x);
        turns++;
    }
}

static NOIPA void asleep(void)
{
    while (ticks < TICKS + SLEEPS)
        wait_for_interrupt();
}

static NOIPA void done(void) {}

int main(void)
{
    timer_start(HZ);
    busy();
    asleep();
    timer_stop();
    done();
    print("ticks: %u\n", (unsigned)ticks);
    return turns == 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
