/* See landing.h. */
#include "landing.h"
#include "board.h"
#include "text.h"
#include "work.h"

uint32_t land(uint32_t round, const uint32_t *good, const volatile uint32_t *maybe_bad);
uint32_t below(uint32_t x, const uint32_t *good, const volatile uint32_t *maybe_bad);
uint32_t before(uint32_t x);
void never(void);

uint32_t again(uint32_t x) { return x + 1; }
void never(void) { board_exit(2); }

static uint32_t seed = 1;
static volatile uint32_t interrupts, faults;

#ifdef __riscv
enum { SHORTEST = 40, SPREAD = 63 }; /* of 100 ns */

void trap_entry(void);
void other_entry(void);

void TIMER_HANDLER(void)
{
    interrupts++;
    timer_once(SHORTEST + (xorshift(&seed) & SPREAD));
}

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    if (cause != 5)
        board_exit(1);
    faults++;
    return pc + ((*(volatile uint16_t *)pc & 3) == 3 ? 4 : 2);
}

static void change_places(uint32_t round)
{
    __asm__ volatile("csrw mtvec, %0" ::"r"(round & 64 ? trap_entry : other_entry));
}

static volatile uint32_t *const bad = (volatile uint32_t *)0x40;
#else
enum { SHORTEST = 300, SPREAD = 255 }; /* of 40 ns */

#define VTOR  (*(volatile uint32_t *)0xe000ed08)
#define SHCSR (*(volatile uint32_t *)0xe000ed24)
#define CFSR  (*(volatile uint32_t *)0xe000ed28)

struct frame { uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr; };

void on_bus_fault(struct frame *frame)
{
    faults++;
    CFSR = 0xff << 8;
    frame->pc += *(const uint16_t *)frame->pc >> 11 >= 0x1d ? 4 : 2;
}

__attribute__((naked)) void BusFault_Handler(void) { __asm__("mov r0, sp\n\tb on_bus_fault"); }

void on_tick(void)
{
    uint32_t exception;
    __asm__ volatile("mrs %0, ipsr" : "=r"(exception));
    if (!exception)
        return;
    interrupts++;
    timer_once(SHORTEST + (xorshift(&seed) & SPREAD));
}

__attribute__((naked)) void tick(void) { __asm__("push {r3, lr}\n\tbl on_tick\n\tpop {r2, r3}\n\tbx r3"); }
__attribute__((naked)) void tock(void) { __asm__("push {r3, lr}\n\tbl on_tick\n\tpop {r2, r3}\n\tbx r3"); }

extern const void *const vectors[16];
static void (*table[64])(void) __attribute__((aligned(512)));

static void change_places(uint32_t round)
{
    static void (*const volatile handlers[])(void) = { tick, tock };
    if (!round) {
        for (int i = 0; i < 16; i++)
            table[i] = (void (*)(void))vectors[i];
        VTOR = (uintptr_t)table;
        SHCSR |= 1 << 17;
    }
    /* A function, and then a handler. */
    handlers[round >> 6 & 1]();
    table[15] = handlers[round >> 6 & 1];
    handlers[round >> 6 & 1]();
}

static volatile uint32_t *const bad = (volatile uint32_t *)0xf0000000;
#endif

int main(void)
{
    static const uint32_t good[2] = { 3, 5 };
    static uint32_t (*const volatile land_by)(uint32_t, const uint32_t *, const volatile uint32_t *) = land;
    uint32_t sum = 0;
    change_places(0);
    timer_once(SHORTEST);
    irq_enable();
    for (uint32_t round = 0; round < LANDING_ROUNDS; round++) {
        if (round && round % 64 == 0)
            change_places(round);
        const volatile uint32_t *maybe_bad = round % 4 == 3 || round % 8 == 2 ? bad : good;
        sum = mix(sum, land_by(round, good, maybe_bad));
        sum = mix(sum, below(sum, good, maybe_bad));
        sum = mix(sum, before(sum));
    }
    irq_disable();
    timer_stop();
    print("land %u\nbelow %u\nagain %u\n", LANDING_ROUNDS, LANDING_ROUNDS, LANDING_ROUNDS);
    print("faults %u, interrupts %u\n", (unsigned)faults, (unsigned)interrupts);
    print("sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
