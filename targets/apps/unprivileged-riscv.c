/* A semihosting call in user mode, which QEMU does not serve: a breakpoint like any other, which traps. */
#include "semihosting.h"
#include "text.h"

enum { BREAKPOINT = 3 };

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    print("unprivileged: cause %u\n", (unsigned)cause);
    board_exit(cause == BREAKPOINT ? 0 : 1);
    return pc;
}

static void user(void)
{
    host_open("/etc/passwd", OPEN_READ);
}

int main(void)
{
    __asm__ volatile("csrw pmpaddr0, %0\n\tcsrw pmpcfg0, %1\n\tcsrc mstatus, %2\n\tcsrw mepc, %3\n\tmret"
                     ::"r"(~(uintptr_t)0 >> 10), "r"(0x1f), "r"(3 << 11), "r"(user) : "memory");
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
