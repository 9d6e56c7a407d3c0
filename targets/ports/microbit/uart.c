/* nRF51 UART, the micro:bit's console. */
#include "board.h"
#include "device.h" /* UART0 */

#define REG(offset) (*(volatile uint32_t *)(UART0 + (offset)))
enum { STARTTX = 0x008, TXDRDY = 0x11c, ENABLE = 0x500, PSELTXD = 0x50c, TXD = 0x51c, BAUDRATE = 0x524 };

void console_init(void)
{
    REG(PSELTXD) = 24;
    REG(BAUDRATE) = 0x01d7e000; /* 115200 */
    REG(ENABLE) = 4;
    REG(STARTTX) = 1;
}

void console_putc(char c)
{
    REG(TXDRDY) = 0;
    REG(TXD) = (uint8_t)c;
    while (!REG(TXDRDY))
        ;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
