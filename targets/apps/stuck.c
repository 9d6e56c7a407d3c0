/* No instruction completes any more: traps lead to where there is nothing, and each attempt is the next trap. */
#include "board.h"
#include "text.h"

int main(void)
{
    print("stuck: traps lead nowhere\n");
    __asm__ volatile("csrw mtvec, %0\n\t.word 0" ::"r"(0x1c000000));
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
