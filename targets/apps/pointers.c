/* Functions that only pointers lead to, from one place, from several, by tail calls, and from interrupts that come
   between a call and its target. Each place counts its calls, and prints them: `place target calls`; a jump is its
   caller's call. On RISC-V one of them becomes the trap vector, too, half way. */
#include "board.h"
#include "text.h"
#include "work.h"

enum { ROUNDS = 20000 };
typedef uint32_t function(uint32_t);

#define PLACE __attribute__((noipa)) uint32_t
#define TARGET static __attribute__((noipa)) uint32_t

/* Called from one place. */
TARGET lone(uint32_t x) { return x + 1; }
/* Called from two, by turns. */
TARGET common_to_two(uint32_t x) { return rotate_left(x, 3) ^ 1; }
/* Called from one, and jumped to from another. */
TARGET jumped_to(uint32_t x) { return x ^ 5; }
/* Called from one outside of interrupts and from one in them. */
TARGET interrupted(uint32_t x) { return x * 3; }
/* Called by turns from one place, and an interrupt's handler half of the time on RISC-V: see pointers-riscv.S. */
#ifdef __riscv
uint32_t dual(uint32_t x);
enum { SHORTEST = 6, SPREAD = 7 }; /* of 100 ns */
#else
TARGET dual(uint32_t x) { return x + 7; }
enum { SHORTEST = 48, SPREAD = 31 }; /* of 40 ns */
#endif
TARGET other(uint32_t x) { return x + 9; }

static function *const volatile at_lone = lone, *const volatile at_two = common_to_two,
               *const volatile at_jumped = jumped_to, *const volatile at_interrupted = interrupted,
               *const volatile at_turns[2] = { dual, other };

static uint32_t lones, firsts, seconds, calls, jumps, outside, in_handler, duals, others;
static uint32_t seed = 1;
static volatile uint32_t interrupts;

PLACE calls_lone(uint32_t x) { lones++; return at_lone(x) + 1; }
PLACE calls_first(uint32_t x) { firsts++; return at_two(x) + 1; }
PLACE calls_second(uint32_t x) { seconds++; return at_two(x) + 2; }
PLACE calls_jumped(uint32_t x) { calls++; return at_jumped(x) + 1; }
PLACE jumps_to(uint32_t x) { jumps++; return at_jumped(x); }
PLACE calls_outside(uint32_t x) { outside++; return at_interrupted(x) + 1; }
PLACE calls_inside(uint32_t x) { in_handler++; return at_interrupted(x) + 2; }
PLACE calls_turns(uint32_t x, uint32_t turn)
{
    if (turn)
        others++;
    else
        duals++;
    return at_turns[turn](x) + 1;
}

void TIMER_HANDLER(void)
{
    static uint32_t x;
#ifdef __riscv
    __asm__ volatile("csrw mcause, zero"); /* what tells `dual` whether it is called */
#endif
    x = calls_inside(x);
    interrupts++;
    timer_once(SHORTEST + (xorshift(&seed) & SPREAD));
}

int main(void)
{
    uint32_t x = 1;
    timer_once(SHORTEST);
    irq_enable();
    for (uint32_t round = 0; round < ROUNDS; round++) {
#ifdef __riscv
        if (round == ROUNDS / 2)
            __asm__ volatile("csrw mtvec, %0" ::"r"(dual));
#endif
        x = calls_lone(x);
        x = round & 1 ? calls_first(x) : calls_second(x);
        x = calls_jumped(x);
        x = jumps_to(x);
        x = calls_outside(x);
        x = calls_turns(x, round >> 1 & 1);
    }
    irq_disable();
    timer_stop();
    print("pointers: %u interrupts%s\n", (unsigned)interrupts, x ? "" : "!");
    print("calls_lone lone %u\ncalls_first common_to_two %u\ncalls_second common_to_two %u\n", (unsigned)lones,
          (unsigned)firsts, (unsigned)seconds);
    print("calls_jumped jumped_to %u\nmain jumped_to %u\n", (unsigned)calls, (unsigned)jumps);
    print("calls_outside interrupted %u\ncalls_inside interrupted %u\n", (unsigned)outside, (unsigned)in_handler);
    print("calls_turns dual %u\ncalls_turns other %u\n", (unsigned)duals, (unsigned)others);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
