/* An interrupt that nothing was written for: every vector is a jump to itself. */
#include "board.h"
#include "text.h"

__attribute__((naked, aligned(4))) void default_handler(void) { __asm__("j default_handler"); }

int main(void)
{
    print("unhandled: the tick comes, and its handler is a loop\n");
    __asm__ volatile("csrw mtvec, %0" ::"r"(default_handler));
    timer_start(1000);
    for (volatile uint32_t turns = 0;;)
        turns++;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
