/* QEMU `virt`: 16550 UART, CLINT timer, test finisher, and the dispatch of traps. */
#include "board.h"
#include "text.h"

#define REG8(a)  (*(volatile uint8_t *)(uintptr_t)(a))
#define REG32(a) (*(volatile uint32_t *)(uintptr_t)(a))

enum {
    UART = 0x10000000, UART_LINE_STATUS = 5, UART_TX_EMPTY = 0x20,
    MTIMECMP = 0x02004000, MTIME = 0x0200bff8, TIMER_HZ = 10000000,
    FINISHER = 0x00100000, FINISHER_RESET = 0x7777,
    MIE_MTIE = 1 << 7, CAUSE_MTIMER = 7,
};

static uint32_t period; /* 0: the timer fires once */
static uint64_t next;

void console_init(void) {}

void console_putc(char c)
{
    while (!(REG8(UART + UART_LINE_STATUS) & UART_TX_EMPTY))
        ;
    REG8(UART) = (uint8_t)c;
}

static uint64_t now(void)
{
    uint32_t high, low;
    do {
        high = REG32(MTIME + 4);
        low = REG32(MTIME);
    } while (high != REG32(MTIME + 4));
    return (uint64_t)high << 32 | low;
}

static void compare_at(uint64_t when)
{
    REG32(MTIMECMP + 4) = 0xffffffff;
    REG32(MTIMECMP) = (uint32_t)when;
    REG32(MTIMECMP + 4) = (uint32_t)(when >> 32);
}

void timer_start(uint32_t hz)
{
    period = TIMER_HZ / hz;
    next = now() + period;
    compare_at(next);
    __asm__ volatile("csrs mie, %0" ::"r"(MIE_MTIE));
    irq_enable();
}

void timer_once(uint32_t counts)
{
    period = 0;
    compare_at(now() + counts);
    __asm__ volatile("csrs mie, %0" ::"r"(MIE_MTIE));
}

void timer_stop(void)
{
    __asm__ volatile("csrc mie, %0" ::"r"(MIE_MTIE));
}

void board_reset(void)
{
    REG32(FINISHER) = FINISHER_RESET;
    for (;;)
        ;
}

__attribute__((weak)) void TIMER_HANDLER(void) {}
__attribute__((weak)) void secondary_main(uintptr_t hart) { (void)hart; }

__attribute__((weak)) uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    print("unexpected trap: cause %u at %08x\n", (unsigned)cause, (unsigned)pc);
    board_exit(1);
}

uintptr_t trap(uintptr_t cause, uintptr_t pc)
{
    const uintptr_t interrupt = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 1);
    if (cause != (interrupt | CAUSE_MTIMER))
        return Exception_Handler(cause, pc);
    next = period ? next + period : ~(uint64_t)0;
    compare_at(next);
    TIMER_HANDLER();
    return pc;
}

int main(void);
extern void (*const __init_array_start[])(void), (*const __init_array_end[])(void);

_Noreturn void port_main(void)
{
    console_init();
    for (void (*const *f)(void) = __init_array_start; f != __init_array_end; f++)
        (*f)();
    board_exit(main());
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
