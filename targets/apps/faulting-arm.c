/* Firmware for another chip, as most of it is that faults: the clocks' registers are not there, and HardFault's handler
   is the vendor's endless loop. With FAULT_AGAIN it returns instead, and the same instruction faults again. */
#include "board.h"
#include "text.h"

enum { RCC = 0xf0023800 };

void HardFault_Handler(void)
{
#ifndef FAULT_AGAIN
    for (;;)
        ;
#endif
}

static __attribute__((noipa)) uint32_t SystemClock_Config(void) { return *(volatile uint32_t *)RCC; }

int main(void)
{
    print("faulting: a register that is not there\n");
    return (int)SystemClock_Config();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
