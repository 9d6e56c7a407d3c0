/* QEMU `sifive_u`: SiFive UART, CLINT timers, one for each hart, and the dispatch of traps. Hart 0 is an E51, the others are
   U54; all of them start at once. */
#include "board.h"
#include "secondary.h"
#include "text.h"

#define REG32(a) (*(volatile uint32_t *)(uintptr_t)(a))

enum {
    UART = 0x10010000, UART_TX_CONTROL = 8, UART_TX_ENABLE = 1,
    MTIMECMP = 0x02004000, MTIME = 0x0200bff8, TIMER_HZ = 1000000, HARTS = 5,
    MIE_MTIE = 1 << 7, CAUSE_MTIMER = 7,
};

static struct { uint32_t period; uint64_t next; } timers[HARTS];

unsigned cpu_number(void)
{
    uintptr_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    return (unsigned)hart;
}

void secondary_start(void) {}

void console_init(void) { REG32(UART + UART_TX_CONTROL) = UART_TX_ENABLE; }

void console_putc(char c)
{
    while (REG32(UART) >> 31)
        ;
    REG32(UART) = (uint8_t)c;
    /* A line is to be out before anything else: at an exit the queue would be lost. It takes 100 ns. */
    for (uint32_t since = REG32(MTIME); c == '\n' && REG32(MTIME) - since < 2;)
        ;
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

static void compare_at(unsigned hart, uint64_t when)
{
    REG32(MTIMECMP + 8 * hart + 4) = 0xffffffff;
    REG32(MTIMECMP + 8 * hart) = (uint32_t)when;
    REG32(MTIMECMP + 8 * hart + 4) = (uint32_t)(when >> 32);
}

void timer_start(uint32_t hz)
{
    unsigned hart = cpu_number();
    timers[hart].period = TIMER_HZ / hz;
    timers[hart].next = now() + timers[hart].period;
    compare_at(hart, timers[hart].next);
    __asm__ volatile("csrs mie, %0" ::"r"(MIE_MTIE));
    irq_enable();
}

void timer_once(uint32_t counts)
{
    unsigned hart = cpu_number();
    timers[hart].period = 0;
    compare_at(hart, now() + counts);
    __asm__ volatile("csrs mie, %0" ::"r"(MIE_MTIE));
}

void timer_stop(void) { __asm__ volatile("csrc mie, %0" ::"r"(MIE_MTIE)); }

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
    unsigned hart = cpu_number();
    timers[hart].next = timers[hart].period ? timers[hart].next + timers[hart].period : ~(uint64_t)0;
    compare_at(hart, timers[hart].next);
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
