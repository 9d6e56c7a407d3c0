/* RISC-V, machine mode only: interrupt control and the timer handler's name. */
#pragma once
#include <stdint.h>

#define TIMER_HANDLER MTimer_Handler

static inline void irq_enable(void)  { __asm__ volatile("csrsi mstatus, 8" ::: "memory"); }
static inline void irq_disable(void) { __asm__ volatile("csrci mstatus, 8" ::: "memory"); }
static inline void wait_for_interrupt(void) { __asm__ volatile("wfi" ::: "memory"); }

/* Called for every trap that is not the timer's; returns where to go on. */
uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc);
/* Entered by every hart but the first, with a stack of its own. */
void secondary_main(uintptr_t hart);
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
