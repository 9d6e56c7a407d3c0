/* Interrupts between calls and their targets: see irqcall.h for the counts. About 20 million instructions. */
#include "irqcall.h"
#include "board.h"
#include "text.h"
#include "work.h"

void irqcall_rounds(uint32_t rounds, uint32_t *counters);

#ifdef __riscv
enum { SHORTEST = 6, SPREAD = 7 }; /* of 100 ns */
#else
enum { SHORTEST = 48, SPREAD = 31 }; /* of 40 ns */
#endif

static uint32_t counters[COUNTERS];
static volatile uint32_t interrupts, irq_calls[4];
static uint32_t seed = 1;

static __attribute__((noipa)) void irq_direct(void) { irq_calls[0]++; }
static __attribute__((noipa)) void irq_pointer0(void) { irq_calls[1]++; }
static __attribute__((noipa)) void irq_pointer1(void) { irq_calls[2]++; }

/* The next interrupt comes after a time that varies, so that every instruction gets its share. */
static __attribute__((noipa)) void irq_tail(uint32_t counts)
{
    irq_calls[3]++;
    timer_once(counts);
}

static void (*const volatile irq_pointers[2])(void) = { irq_pointer0, irq_pointer1 };

void TIMER_HANDLER(void)
{
    irq_direct();
    irq_pointers[interrupts++ & 1]();
    irq_tail(SHORTEST + (xorshift(&seed) & SPREAD));
}

static const struct { const char *name; int index; uint32_t expected; } checks[] = {
    { "leaf_direct", LEAF_DIRECT, IRQCALL_ROUNDS },
    { "leaf_pointer0", LEAF_POINTER, IRQCALL_ROUNDS / 4 },
    { "leaf_pointer1", LEAF_POINTER + 1, IRQCALL_ROUNDS / 4 },
    { "leaf_pointer2", LEAF_POINTER + 2, IRQCALL_ROUNDS / 4 },
    { "leaf_pointer3", LEAF_POINTER + 3, IRQCALL_ROUNDS / 4 },
    { "tail_direct", TAIL_DIRECT, IRQCALL_ROUNDS },
    { "leaf_tail", LEAF_TAIL, IRQCALL_ROUNDS },
    { "tail_pointer", TAIL_POINTER, IRQCALL_ROUNDS },
    { "leaf_tail_pointer", LEAF_TAIL_POINTER, IRQCALL_ROUNDS },
    { "tail_if", TAIL_IF, IRQCALL_ROUNDS },
    { "leaf_even", LEAF_EVEN, IRQCALL_ROUNDS / 2 },
    { "leaf_odd", LEAF_ODD, IRQCALL_ROUNDS / 2 },
    { "tail_if_pointer", TAIL_IF_POINTER, IRQCALL_ROUNDS },
    { "leaf_if", LEAF_IF, IRQCALL_ROUNDS / 2 },
    { "loop_at_entry", LOOP_AT_ENTRY, IRQCALL_ROUNDS },
    { "recurse", RECURSE, 3 * IRQCALL_ROUNDS },
};

int main(void)
{
    int wrong = 0;
    print("irqcall: %u rounds\n", (unsigned)IRQCALL_ROUNDS);
    irq_tail(SHORTEST); /* the only call from outside the handler */
    irq_enable();
    irqcall_rounds(IRQCALL_ROUNDS, counters);
    irq_disable();
    timer_stop();
    for (unsigned i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        uint32_t count = counters[checks[i].index];
        int same = count == checks[i].expected;
        print("%20s %u%s\n", checks[i].name, (unsigned)count, same ? "" : " WRONG");
        wrong |= !same;
    }
    print("interrupts %u, irq_direct %u, irq_pointer0 %u, irq_pointer1 %u, irq_tail %u\n", (unsigned)interrupts,
          (unsigned)irq_calls[0], (unsigned)irq_calls[1], (unsigned)irq_calls[2], (unsigned)irq_calls[3]);
    print("irqcall: %s\n", wrong ? "wrong" : "done");
    return wrong;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
