/* STM32F407: USART2 by interrupt, which hands a line over in capitals. */
#include "board.h"
#include "device.h"
#include "text.h"

#define REG(address) (*(volatile uint32_t *)(address))
static volatile uint32_t last;

static void usart2(void)
{
    if (REG(UART0) & 1 << 5)
        last = 0x100 | (REG(UART0 + 4) & 0xff);
}

__attribute__((aligned(512))) static const void *table[16 + 82];
extern const void *const vectors[16];

int main(void)
{
    for (int i = 0; i < 16; i++)
        table[i] = vectors[i];
    table[16 + 38] = (const void *)usart2;
    REG(0xe000ed08) = (uint32_t)table;
    REG(0xe000e104) = 1 << (38 - 32);
    REG(UART0 + 0xc) |= 1 << 5; /* RXNEIE */
    print("name? ");
    for (;;) {
        __asm__ volatile("cpsid i");
        while (!last)
            __asm__ volatile("wfi\n\tcpsie i\n\tisb\n\tcpsid i");
        uint32_t byte = last & 0xff;
        last = 0;
        __asm__ volatile("cpsie i");
        print("%c", byte >= 'a' && byte <= 'z' ? (int)byte - 32 : (int)byte);
        if (byte == '\n')
            return 0;
    }
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
