/* Two CPUs of whatever machine, for applications that both run: which one executes, how the second one starts, and a
   lock that both can take. */
#pragma once
#include <stdint.h>
#include "secondary.h"

#ifdef __riscv
/* The harts of `virt` start together. */
static inline unsigned this_cpu(void)
{
    uintptr_t hart;
    __asm__ volatile("csrr %0, mhartid" : "=r"(hart));
    return (unsigned)hart;
}
static inline void start_other_cpu(void) {}
#else
static inline unsigned this_cpu(void) { return cpu_number() & 1; }
static inline void start_other_cpu(void) { secondary_start(); }
#endif

/* How often it was taken by the other one, and waited for. */
static inline uint32_t take_lock(volatile uint32_t *lock)
{
    uint32_t waits = 0;
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        waits++;
    return waits;
}
static inline void release_lock(volatile uint32_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
