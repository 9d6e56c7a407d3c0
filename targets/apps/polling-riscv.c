/* Waits for a bit of a register of a device that is there and never sets it. */
#include "board.h"
#include "text.h"

#define PCIE_CONFIG (*(volatile uint32_t *)0x30000000)

static __attribute__((noipa)) void wait_for_clock(void)
{
    while (!(PCIE_CONFIG & 1 << 17))
        ;
}

int main(void)
{
    print("polling: a bit that never comes\n");
    wait_for_clock();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
