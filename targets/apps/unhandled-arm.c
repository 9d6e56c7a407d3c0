/* An interrupt that nothing was written for: the vendor's Default_Handler is a jump to itself. */
#include "board.h"
#include "text.h"

void SysTick_Handler(void)
{
    for (;;)
        ;
}

int main(void)
{
    print("unhandled: the tick comes, and its handler is a loop\n");
    timer_start(1000);
    for (volatile uint32_t turns = 0;;)
        turns++;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
