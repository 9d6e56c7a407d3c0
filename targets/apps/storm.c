/* A storm of timer interrupts whose handler calls the same functions through the same places as main does:
   every arc is counted from both, and the handler comes between any two instructions of the runtime. Each
   function counts its calls itself, apart for main and handler, and prints them at the end. */
#include "board.h"
#include "text.h"
#include "work.h"

#ifdef __riscv
#define TIMER_HZ 10000000
#else
#include "device.h"
#define TIMER_HZ SYSTICK_HZ
#endif
enum { INTERRUPTS = 12000, SHORTEST_NS = 6000, SPREAD_NS = 8191 };

enum { STEP, BRANCH, LEAF, LEFT, RIGHT, POINTER, KINDS };
static const char *const names[KINDS] = { "step", "branch", "leaf", "left", "right", "by_pointer" };
static uint32_t own[2][KINDS];
static volatile uint32_t in_handler, interrupts;
static uint32_t seed = 1;

#define COUNT(kind) own[in_handler][kind]++

static __attribute__((noipa)) uint32_t leaf(uint32_t x) { COUNT(LEAF); return rotate_left(x, 3) + 1; }
static __attribute__((noipa)) uint32_t left(uint32_t x) { COUNT(LEFT); return leaf(x) ^ 5; }
static __attribute__((noipa)) uint32_t right(uint32_t x) { COUNT(RIGHT); return leaf(leaf(x)) ^ 7; }
static __attribute__((noipa)) uint32_t by_pointer(uint32_t (*next)(uint32_t), uint32_t x) { COUNT(POINTER); return next(x) + 1; }
static __attribute__((noipa)) uint32_t branch(uint32_t x) { COUNT(BRANCH); return (x & 1 ? left(x) : right(x)) + 1; }
static __attribute__((noipa)) uint32_t step(uint32_t x) { COUNT(STEP); return by_pointer(x & 2 ? left : right, branch(x)) + 1; }

static __attribute__((noipa, no_instrument_function)) void next_interrupt(void)
{
    timer_once((SHORTEST_NS + (xorshift(&seed) & SPREAD_NS)) / (1000000000 / TIMER_HZ));
}

void TIMER_HANDLER(void)
{
    static uint32_t x;
    timer_stop();
    in_handler = 1;
    x = step(x);
    in_handler = 0;
    if (++interrupts < INTERRUPTS)
        next_interrupt();
}

int main(void)
{
    uint32_t x = 1;
    next_interrupt();
    irq_enable();
    while (interrupts < INTERRUPTS)
        x = step(x);
    irq_disable();
    print("storm: %u interrupts%s\n", (unsigned)interrupts, x ? "" : "!");
    for (int kind = 0; kind < KINDS; kind++)
        print("%s %u\n", names[kind], (unsigned)(own[0][kind] + own[1][kind]));
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
