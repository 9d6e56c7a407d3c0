/* STM32F4 USART1, QEMU's first serial port on this board. */
#include "board.h"
#include "device.h" /* UART0 */

#define REG(offset) (*(volatile uint32_t *)(UART0 + (offset)))
enum { SR = 0x00, DR = 0x04, BRR = 0x08, CR1 = 0x0c, SR_TXE = 1 << 7 };

void console_init(void)
{
    REG(BRR) = 0x2d9;
    REG(CR1) = 1 << 13 | 1 << 3; /* UE, TE */
}

void console_putc(char c)
{
    while (!(REG(SR) & SR_TXE))
        ;
    REG(DR) = (uint8_t)c;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
