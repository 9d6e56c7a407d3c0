/* Jumps into the UART with traps led there, too: what is fetched is no code. */
#include "board.h"
#include "text.h"

int main(void)
{
    print("stuck: goes on in a device\n");
    __asm__ volatile("csrw mtvec, %0\n\tjr %0" ::"r"((uintptr_t)0x10000000));
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
