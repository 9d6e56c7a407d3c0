/* PL011. */
#include "board.h"
#include "device.h"

#define REG(offset) (*(volatile uint32_t *)(UART0 + (offset)))

void console_init(void)
{
    REG(0x30) = 1 << 9 | 1 << 8 | 1; /* CR: RXE, TXE, UARTEN */
}

void console_putc(char c)
{
    REG(0x00) = (unsigned char)c;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
