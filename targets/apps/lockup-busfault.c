/* Locks up a Cortex-M: the HardFault handler does a bad load itself. */
#include "board.h"
#include "text.h"

static __attribute__((noipa)) uint32_t load_word(uintptr_t address) { return *(volatile uint32_t *)address; }

void HardFault_Handler(void)
{
    load_word(0xf0000004);
}

int main(void)
{
    print("lockup-busfault: loading from 0xf0000000\n");
    load_word(0xf0000000);
    board_exit(1);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
