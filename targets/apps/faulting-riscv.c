/* As faulting-arm.c: a register that is not there, and a trap handler that is an endless loop. With FAULT_AGAIN it
   returns to the instruction that faulted. */
#include "board.h"
#include "text.h"

enum { RCC = 0x1c023800 };

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    (void)cause;
#ifndef FAULT_AGAIN
    for (;;)
        ;
#endif
    return pc;
}

static __attribute__((noipa)) uint32_t SystemClock_Config(void) { return *(volatile uint32_t *)RCC; }

int main(void)
{
    print("faulting: a register that is not there\n");
    return (int)SystemClock_Config();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
