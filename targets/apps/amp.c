/* Two CPUs, of which the first one starts the second, which waits for a flag, works and answers. Each has a timer of its own, calls of its own and some through pointers that both make. */
#include "board.h"
#include "secondary.h"
#include "text.h"
#include "work.h"

#ifndef REPEAT
#define REPEAT 1
#endif

static volatile uint32_t go, answered, answer, ticks[2];

static __attribute__((noipa)) void tick_of(volatile uint32_t *counter) { ++*counter; }

void TIMER_HANDLER(void) { tick_of(&ticks[cpu_number() & 1]); }

static __attribute__((noipa)) uint32_t unit_of_both(uint32_t i) { return fib(8 + (i & 3)); }
static __attribute__((noipa)) uint32_t unit_of_cpu0(uint32_t i) { return matrix_unit(i); }
static __attribute__((noipa)) uint32_t unit_of_cpu1(uint32_t i) { return fib(10 + (i & 3)); }

typedef uint32_t unit(uint32_t);
static unit *const units[2][2] = { { unit_of_both, unit_of_cpu0 }, { unit_of_both, unit_of_cpu1 } };

static __attribute__((noipa)) uint32_t work(unit *const *mine, uint32_t turns)
{
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= turns; i++)
        sum = mix(sum, mine[i % 2](i));
    return sum;
}

static __attribute__((noipa)) void wait_for(volatile uint32_t *flag)
{
    while (!*flag) {
        __asm__ volatile("wfe" ::: "memory");
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static __attribute__((noipa)) void raise_flag(volatile uint32_t *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    __asm__ volatile("dsb\n\tsev" ::: "memory");
}

void secondary_main(uintptr_t cpu)
{
    if (cpu != 1)
        return;
    wait_for(&go);
    timer_start(2000);
    answer = work(units[1], 600 * REPEAT);
    timer_stop();
    raise_flag(&answered);
}

int main(void)
{
    print("amp: CPU 0 starts CPU 1\n");
    secondary_start();
    raise_flag(&go);
    timer_start(1000);
    uint32_t mine = work(units[0], 120 * REPEAT);
    wait_for(&answered);
    timer_stop();
    print("CPU 0 %08x, CPU 1 %08x, %s\n", (unsigned)mine, (unsigned)answer,
          ticks[0] && ticks[1] ? "both ticked" : "one did not tick");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
