/* Locks up a Cortex-M: with sp outside RAM neither the fault's frame nor the handler's can be stored. */
#include "board.h"
#include "text.h"

static __attribute__((noipa)) void report(void) { print("HardFault\n"); }

void HardFault_Handler(void)
{
    report();
    board_exit(1);
}

int main(void)
{
    print("lockup-badstack: sp = 0xf0000100, then an undefined instruction\n");
    __asm__ volatile("msr msp, %0\n\tisb\n\tudf #0" ::"r"(0xf0000100));
    board_exit(1);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
