/* Arm CMSDK APB UART, the console of the mps2 boards. */
#include "board.h"
#include "device.h" /* UART0 */

struct uart { volatile uint32_t data, state, ctrl, intstatus, bauddiv; };
#define UART ((struct uart *)UART0)
enum { TX_FULL = 1, TX_ENABLE = 1 };

void console_init(void)
{
    UART->bauddiv = 16;
    UART->ctrl = TX_ENABLE;
}

void console_putc(char c)
{
    while (UART->state & TX_FULL)
        ;
    UART->data = (uint8_t)c;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
