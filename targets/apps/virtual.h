/* Supervisor mode behind Sv39: RAM and devices where they are, and all of RAM once more where there is no memory. */
#pragma once
#include "board.h"

enum { VALID_RWX = 0xcf, GIGABYTE_BITS = 30, RAM_GIGABYTE = 2, ALIAS_GIGABYTE = 5 };
#define ALIAS ((uintptr_t)(ALIAS_GIGABYTE - RAM_GIGABYTE) << GIGABYTE_BITS)

/* Goes on in `function` at its other address, in supervisor mode. */
static inline void go_virtual(void (*function)(void))
{
    static uintptr_t root[512] __attribute__((aligned(4096)));
    root[0] = VALID_RWX;
    root[RAM_GIGABYTE] = root[ALIAS_GIGABYTE] = (uintptr_t)RAM_GIGABYTE << 28 | VALID_RWX;
    const uintptr_t mode = (uintptr_t)8 << 60 | (uintptr_t)root >> 12;
    const uintptr_t target = (uintptr_t)function + ALIAS;
    __asm__ volatile("csrw pmpaddr0, %0\n\tcsrw pmpcfg0, %1\n\tcsrw satp, %2\n\tsfence.vma\n\t"
                     "csrc mstatus, %3\n\tcsrs mstatus, %4\n\tcsrw mepc, %5\n\tmret"
                     ::"r"(~(uintptr_t)0 >> 10), "r"(0x1f), "r"(mode), "r"(3 << 11), "r"(1 << 11), "r"(target)
                     : "memory");
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
