/* A UART as the 16550's. */
#include "board.h"
#include "device.h"

#define REG(offset) (*(volatile uint32_t *)(UART0 + (offset)))
enum { THR = 0x00, DLM = 0x04, FCR = 0x08, LCR = 0x0c, LSR = 0x14, DLAB = 1 << 7, THRE = 1 << 5 };

void console_init(void)
{
    REG(LCR) = DLAB | 3;
    REG(DLM) = 0;
    REG(THR) = 2;
    REG(LCR) = 3;
    REG(FCR) = 1;
}

void console_putc(char c)
{
    while (!(REG(LSR) & THRE))
        ;
    REG(THR) = (unsigned char)c;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
