/* Cortex-M: interrupt control and the timer handler's name. */
#pragma once
#include <stdint.h>

#define TIMER_HANDLER SysTick_Handler

static inline void irq_enable(void)  { __asm__ volatile("cpsie i" ::: "memory"); }
static inline void irq_disable(void) { __asm__ volatile("cpsid i" ::: "memory"); }
static inline void wait_for_interrupt(void) { __asm__ volatile("wfi" ::: "memory"); }
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
