/* Asleep for ever: wfi with interrupts off and no timer armed. */
#include "board.h"
#include "text.h"

int main(void)
{
    print("sleep: wfi, and nothing will ever wake it\n");
    irq_disable();
    for (;;)
        wait_for_interrupt();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
