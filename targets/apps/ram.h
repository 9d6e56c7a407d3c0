/* Three pieces of position-independent code, int(int), that ram.c copies over one another. The second is
   as long as the first, the third is longer. */
#pragma once
#include <stdint.h>

extern const uint8_t ram_add1[], ram_add1_end[], ram_add5[], ram_add5_end[], ram_mix[], ram_mix_end[];

/* Makes the processor see new instructions. */
static inline void instruction_barrier(void)
{
#ifdef __riscv
    __asm__ volatile("fence.i" ::: "memory");
#else
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
}
#ifdef __riscv
#define CODE_POINTER(p) ((uintptr_t)(p))
#else
#define CODE_POINTER(p) ((uintptr_t)(p) | 1) /* Thumb */
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
