/* STM32F4: the crystal, the PLL at 168 MHz and flash for it, each waited for, as vendors' start-up code does; USART2. */
#include "board.h"
#include "device.h"

#define REG(address) (*(volatile uint32_t *)(address))
enum { RCC = 0x40023800, PWR = 0x40007000, FLASH = 0x40023c00, GPIOA = 0x40020000 };
enum { CR = 0x00, PLLCFGR = 0x04, CFGR = 0x08, AHB1ENR = 0x30, APB1ENR = 0x40 };
enum { SR = 0x00, DR = 0x04, BRR = 0x08, CR1 = 0x0c, SR_TXE = 1 << 7, SR_TC = 1 << 6 };

static void clock_init(void)
{
    REG(RCC + CR) |= 1 << 16; /* HSEON */
    while (!(REG(RCC + CR) & 1 << 17))
        ;
    REG(RCC + APB1ENR) |= 1 << 28;
    REG(PWR) |= 3 << 14; /* VOS: scale 1 */
    while (!(REG(PWR + 4) & 1 << 14))
        ;
    REG(RCC + PLLCFGR) = 8 | 336 << 6 | 0 << 16 | 1 << 22 | 7 << 24;
    REG(RCC + CR) |= 1 << 24; /* PLLON */
    while (!(REG(RCC + CR) & 1 << 25))
        ;
    REG(FLASH) = 5 | 7 << 8;
    while ((REG(FLASH) & 7) != 5)
        ;
    REG(RCC + CFGR) = 5 << 10 | 4 << 13; /* APB1 by 4, APB2 by 2 */
    REG(RCC + CFGR) |= 2; /* the PLL */
    while ((REG(RCC + CFGR) & 3 << 2) != 2 << 2)
        ;
}

void console_init(void)
{
    clock_init();
    REG(RCC + AHB1ENR) |= 1;
    REG(RCC + APB1ENR) |= 1 << 17;
    REG(GPIOA) = (REG(GPIOA) & ~0xf0u) | 0xa0; /* PA2, PA3: alternate */
    REG(UART0 + BRR) = 42000000 / 115200;
    REG(UART0 + CR1) = 1 << 13 | 1 << 3 | 1 << 2; /* UE, TE, RE */
}

void console_putc(char c)
{
    while (!(REG(UART0 + SR) & SR_TXE))
        ;
    REG(UART0 + DR) = (uint8_t)c;
    while (!(REG(UART0 + SR) & SR_TC))
        ;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
