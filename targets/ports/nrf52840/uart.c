/* nRF52840: both clocks started and waited for; UARTE0, which fetches each byte from RAM by itself. */
#include "board.h"
#include "device.h"

#define REG(address) (*(volatile uint32_t *)(address))
enum { CLOCK = 0x40000000, HFCLKSTART = 0x000, LFCLKSTART = 0x008, HFCLKSTARTED = 0x100, LFCLKSTARTED = 0x104 };
enum { STARTTX = 0x008, ENDTX = 0x120, ENABLE = 0x500, PSELTXD = 0x50c, BAUDRATE = 0x524, PTR = 0x544, MAXCNT = 0x548 };

void console_init(void)
{
    REG(CLOCK + HFCLKSTARTED) = 0;
    REG(CLOCK + HFCLKSTART) = 1;
    while (!REG(CLOCK + HFCLKSTARTED))
        ;
    REG(CLOCK + 0x518) = 1; /* LFCLKSRC: the crystal */
    REG(CLOCK + LFCLKSTARTED) = 0;
    REG(CLOCK + LFCLKSTART) = 1;
    while (!REG(CLOCK + LFCLKSTARTED))
        ;
    REG(UART0 + PSELTXD) = 6;
    REG(UART0 + BAUDRATE) = 0x01d60000;
    REG(UART0 + ENABLE) = 8;
}

void console_putc(char c)
{
    static volatile char byte;
    byte = c;
    REG(UART0 + PTR) = (uintptr_t)&byte;
    REG(UART0 + MAXCNT) = 1;
    REG(UART0 + ENDTX) = 0;
    REG(UART0 + STARTTX) = 1;
    while (!REG(UART0 + ENDTX))
        ;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
