/* Traps on top of traps: ecalls and an illegal instruction, each skipped by the handler; a timer interrupt that
   may come in the middle of the handler, which lets interrupts in while it works. */
#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))
enum { ROUNDS = 3000 };

static volatile uint32_t ticks, traps;
static volatile uint32_t total;

static NOIPA uint32_t spend(uint32_t x)
{
    for (int i = 0; i < 12; i++)
        x = x * 3 + ticks;
    return x;
}
static NOIPA uint32_t helper(uint32_t depth, uint32_t x) { return depth ? helper(depth - 1, spend(x)) + 1 : spend(x); }

static NOIPA void on_timer(void)
{
    ticks++;
    timer_once(3000);
    total = helper(3, total);
}

static NOIPA void on_exception(uintptr_t cause)
{
    uintptr_t epc, status;
    traps++;
    __asm__ volatile("csrr %0, mepc\n\tcsrr %1, mstatus" : "=r"(epc), "=r"(status));
    __asm__ volatile("csrsi mstatus, 8" ::: "memory"); /* the timer may interrupt */
    total = helper(cause & 3, total);
    __asm__ volatile("csrci mstatus, 8" ::: "memory");
    __asm__ volatile("csrw mstatus, %1\n\tcsrw mepc, %0" ::"r"(epc + 4), "r"(status));
}

__attribute__((interrupt, aligned(4))) void on_trap(void)
{
    uintptr_t cause;
    __asm__ volatile("csrr %0, mcause" : "=r"(cause));
    if ((intptr_t)cause < 0)
        on_timer();
    else
        on_exception(cause);
}

static NOIPA void call_environment(void) { __asm__ volatile("ecall" ::: "memory"); }
static NOIPA void try_illegal(void) { __asm__ volatile(".word 0xc0001073" ::: "memory"); } /* unimp */

int main(void)
{
    uint32_t x = 1;
    __asm__ volatile("csrw mtvec, %0" ::"r"(on_trap));
    timer_start(2000);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        x = helper(round & 7, x);
        (round & 1 ? call_environment : try_illegal)();
    }
    timer_stop();
    print("nested: %s\n", x && traps == ROUNDS && ticks ? "ok" : "bad");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
