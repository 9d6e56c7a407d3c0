/* A private table of what is held, which every allocation and every free of the image goes through. What it says at the
   end is what a profiler has to find by itself. The linker leads all calls here (--wrap=malloc and the like). */
#pragma once
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A block was given out; NULL: there was none. */
void truth_in(const void *block, size_t size);
/* A block is about to be taken back; NULL is none. */
void truth_out(const void *block);
/* Prints all of it. */
void truth_print(void);

/* Interrupts are off until what it returns is given back. */
static inline uintptr_t truth_lock(void)
{
    uintptr_t before;
#ifdef __riscv
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(before)::"memory");
#else
    __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(before)::"memory");
#endif
    return before;
}
static inline void truth_unlock(uintptr_t before)
{
#ifdef __riscv
    __asm__ volatile("csrs mstatus, %0" ::"r"(before & 8) : "memory");
#else
    __asm__ volatile("msr primask, %0" ::"r"(before) : "memory");
#endif
}
#ifdef __cplusplus
}
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
