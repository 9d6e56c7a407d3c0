/* The test finisher of QEMU's `virt`. QEMU shuts down some time after the store; until then the
   processor spins, for a number of instructions that nobody can foresee. */
#pragma once
#include <stdint.h>

static inline _Noreturn void finisher(uint32_t value)
{
    *(volatile uint32_t *)0x100000 = value;
    for (;;)
        ;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
