/* RISC-V's kind of lock-up: the trap handler's first instruction traps. No instruction ever completes. */
#include "board.h"
#include "text.h"

__attribute__((naked, aligned(4))) void broken_trap_handler(void) { __asm__(".word 0"); }

int main(void)
{
    print("traploop: the trap handler starts with an illegal instruction\n");
    __asm__ volatile("csrw mtvec, %0\n\t.word 0" ::"r"(broken_trap_handler));
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
