/* A semihosting call by a thread without privileges, which QEMU does not serve: a breakpoint like any other, which
comes to a HardFault. */
#include "semihosting.h"
#include "text.h"

void HardFault_Handler(void)
{
    print("unprivileged: faulted\n");
    board_exit(0);
}

int main(void)
{
    __asm__ volatile("msr control, %0\n\tisb" ::"r"(1) : "memory");
    host_open("/etc/passwd", OPEN_READ);
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
