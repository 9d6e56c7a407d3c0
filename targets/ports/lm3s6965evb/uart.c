/* PL011 UART0 of the Stellaris, the board's console. */
#include "board.h"
#include "device.h" /* UART0 */

#define REG(offset) (*(volatile uint32_t *)(UART0 + (offset)))
enum { DR = 0x00, FR = 0x18, LCRH = 0x2c, CTL = 0x30, FR_TXFF = 1 << 5 };

void console_init(void)
{
    *(volatile uint32_t *)0x400fe104 |= 1; /* RCGC1: clock for UART0 */
    REG(LCRH) = 0x70;                      /* 8 bits, FIFO */
    REG(CTL) = 0x301;                      /* RXE, TXE, UARTEN */
}

void console_putc(char c)
{
    while (REG(FR) & FR_TXFF)
        ;
    REG(DR) = (uint8_t)c;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
