/* A trap handler that faults itself: each trap is one deeper than the last. */
#include "board.h"
#include "text.h"

__attribute__((naked, aligned(4))) void deeper_trap_handler(void)
{
    __asm__("addi sp, sp, -16\n\tsw zero, 0(zero)");
}

int main(void)
{
    print("deeptraps: the handler traps\n");
    __asm__ volatile("csrw mtvec, %0\n\t.word 0" ::"r"(deeper_trap_handler));
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
