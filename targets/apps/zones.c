/* Zones, phases and marks (zone/zone.h) in every way that they come, under a tick that has zones itself. The numbers that
   harness/tests/run/zones.rs knows:

       exactly     CALLS times 1 + 40 instructions, and within it inner, 1 + 20
       stretch     from the first instruction of from_here to that of until_here
       walk        recursion, 1 + DEPTH deep, ROUNDS times
       left        ROUNDS times by a jump out of the depth
       handed      begun here, ended by the tick
       orphan      ended three times, never begun
       whole       never ended                                                                                     */
#include "board.h"
#include "text.h"
#include "work.h"
#include "zone.h"

enum { CALLS = 50, ROUNDS = 25, DEPTH = 6, TICKS = 40 };

static volatile uint32_t ticks, in_ticks;
static volatile int is_handed;
static volatile uint32_t sink;
#if !(defined(__clang__) && defined(__riscv))
static void *landing[5];
#endif

#define NOPS(count) __asm__ volatile(".rept " #count "\nnop\n.endr")

static __attribute__((noipa)) uint32_t work(uint32_t x, uint32_t turns)
{
    while (turns--)
        x = mix(x, turns);
    return x;
}

/* ---- of known length ---- */

static __attribute__((noipa)) void exactly(void)
{
    ZONE_BEGIN("exactly");
    NOPS(15);
    ZONE_BEGIN("inner");
    NOPS(20);
    ZONE_END("inner");
    NOPS(3);
    ZONE_END("exactly");
}

__attribute__((noipa)) void from_here(void) { ZONE_BEGIN("stretch"); }
__attribute__((noipa)) void until_here(void) { ZONE_END("stretch"); }
__attribute__((noipa)) void note(uint32_t turns) { MARK("turns", turns); }

/* ---- scopes, also in what is inlined and unrolled, and left in the middle ---- */

static inline __attribute__((always_inline)) uint32_t inlined(uint32_t x)
{
    ZONE("inlined");
    return mix(x, 7);
}

__attribute__((noipa)) uint32_t decode(uint32_t x)
{
    ZONE("decode");
    for (int i = 0; i < 4; i++) {
        ZONE("bit");
        x = inlined(x);
        if (x % 61 == 0)
            return x;
    }
    return inlined(x) + work(x, x & 31);
}

__attribute__((noipa)) uint32_t filter(uint32_t x, uint32_t turns)
{
    ZONE("filter");
    for (uint32_t i = 0; i < turns; i++)
        x = mix(x, i);
    return x;
}

static __attribute__((noipa)) uint32_t walk(uint32_t depth, uint32_t x)
{
    ZONE("walk");
    x = work(x, 5 + depth);
    return depth ? walk(depth - 1, x) + 1 : x;
}

/* ---- what is not balanced ---- */

/* LLVM's RISC-V has no such jump. */
#if !(defined(__clang__) && defined(__riscv))
static __attribute__((noipa)) uint32_t jumps_out(uint32_t depth, uint32_t x)
{
    ZONE("left");
    x = work(x, 3);
    if (depth == 0)
        __builtin_longjmp(landing, 1);
    return jumps_out(depth - 1, x) + 1;
}

static __attribute__((noipa)) uint32_t lands(uint32_t x)
{
    ZONE("lands");
    if (__builtin_setjmp(landing) == 0)
        return jumps_out(1, x);
    {
        ZONE("landed");
        x = work(sink, 9);
    }
    return x;
}
#else
static uint32_t lands(uint32_t x) { return x; }
#endif

/* ---- interrupts ---- */

static __attribute__((noipa)) void tick_work(void)
{
    ZONE("tick");
    in_ticks = filter(in_ticks, 20 + (ticks & 7));
}

void TIMER_HANDLER(void)
{
    ticks++;
    tick_work();
    if (is_handed) {
        is_handed = 0;
        ZONE_END("handed");
    }
    /* Not ended where it returns. */
    if (ticks == 10)
        ZONE_BEGIN("abandoned");
}

int main(void)
{
    uint32_t x = 1;
    PHASE("boot");
    ZONE_BEGIN("whole");
    for (uint32_t i = 0; i < CALLS; i++)
        exactly();
    for (uint32_t i = 0; i < CALLS; i++) {
        from_here();
        x = work(x, i * 3);
        until_here();
        note(i * 3);
    }
    MARK("constant", -7);
    PHASE("alone");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        sink = walk(DEPTH, x);
        sink = lands(x);
        MARK("signed", (int)(i - 10));
    }
    for (int i = 0; i < 3; i++)
        ZONE_END("orphan");
    ZONE_BEGIN("handed");
    is_handed = 1;
    PHASE("ticking");
    timer_start(1000);
    irq_enable();
    while (ticks < TICKS) {
        x = decode(x);
        x = filter(x, 100);
        if (ticks == TICKS / 2)
            PHASE("late");
    }
    timer_stop();
    irq_disable();
    PHASE("boot");
    print("zones: %u ticks, sum %08x %08x\n", (unsigned)ticks, (unsigned)(x != 0), (unsigned)(in_ticks != 0));
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
