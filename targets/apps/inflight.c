/* A timer interrupt comes ever again while a function is being called, and ends the run as soon as it has
   come between the function's entry and the moment when the runtime counts it. */
#include "board.h"
#include "text.h"
#include "work.h"

#define SILENT __attribute__((no_instrument_function))

#ifdef __riscv
#define RUNTIME _mcount
enum { BEFORE_COUNT_BYTES = 16, SHORTEST = 7, SPREAD = 7 }; /* of 100 ns */
#else
#define RUNTIME __gnu_mcount_nc
enum { BEFORE_COUNT_BYTES = 10, SHORTEST = 100, SPREAD = 127 }; /* of 40 ns */
#endif
void RUNTIME(void);

static uint32_t seed = 1;

SILENT void on_timer(uintptr_t interrupted)
{
    uintptr_t from = (uintptr_t)RUNTIME & ~(uintptr_t)1;
    timer_stop();
    if (interrupted - from < BEFORE_COUNT_BYTES) {
        print("inflight: interrupted in time\n");
        board_exit(0);
    }
    timer_once(SHORTEST + (xorshift(&seed) & SPREAD));
}

#ifdef __riscv
SILENT void TIMER_HANDLER(void)
{
    uintptr_t pc;
    __asm__ volatile("csrr %0, mepc" : "=r"(pc));
    on_timer(pc);
}
#else
/* The interrupted pc is the seventh word of the frame. */
__attribute__((naked)) SILENT void TIMER_HANDLER(void) { __asm__("ldr r0, [sp, #24]\n\tb on_timer"); }
#endif

static __attribute__((noipa)) uint32_t called(uint32_t x) { return rotate_left(x, 3) + 1; }

int main(void)
{
    uint32_t sum = 1;
    timer_once(SHORTEST);
    irq_enable();
    for (uint32_t i = 0; i < 100000; i++)
        sum = called(sum);
    print("inflight: never, sum %08x\n", (unsigned)sum);
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
