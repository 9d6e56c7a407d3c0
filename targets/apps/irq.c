/* Interrupt handlers that are instrumented themselves and entered by the hardware: nobody calls them. */
#include "board.h"
#include "text.h"
#include "work.h"

enum { INTERRUPTS = 1000 };

static volatile uint32_t interrupts;

static __attribute__((noipa)) void count_interrupt(void) { interrupts++; }

#ifdef __riscv
#define MTIMECMP (*(volatile uint64_t *)0x02004000)
__attribute__((interrupt, aligned(4))) void on_trap(void)
{
    MTIMECMP += 1000;
    count_interrupt();
}
static void install(void) { __asm__ volatile("csrw mtvec, %0" ::"r"(on_trap)); }
#else
void TIMER_HANDLER(void) { count_interrupt(); }
static void install(void) {}
#endif

static __attribute__((noipa)) uint32_t work(uint32_t x) { return rotate_left(x, 3) + 1; }

int main(void)
{
    uint32_t sum = 1;
    install();
    timer_start(10000);
    while (interrupts < INTERRUPTS)
        sum = work(sum);
    timer_stop();
    print("irq: %u interrupts%s\n", (unsigned)INTERRUPTS, sum ? "" : "!");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
