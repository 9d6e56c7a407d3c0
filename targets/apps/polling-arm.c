/* Waits for a bit of a register that this machine's stub of a device never sets, as start-up code of others does. */
#include "board.h"
#include "text.h"

#define RCC_CR (*(volatile uint32_t *)0x4000f000)

static __attribute__((noipa)) void wait_for_clock(void)
{
    while (!(RCC_CR & 1 << 17))
        ;
}

int main(void)
{
    print("polling: a bit that never comes\n");
    wait_for_clock();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
