/* What a stack is hard to walk through without debug information: an interpreter that goes on by computed jumps, with
   a frame of several kilobytes and an early way out before it is made; traps in the middle of functions, where gcc puts
   them when a program has no meaning; on Cortex-M a handler in assembly that calls C and keeps lr nowhere on the
   stack; without Thumb-2 small code's switches and pushes. */
#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))

static volatile uint32_t sink;

static NOIPA uint32_t leaf(uint32_t x)
{
    for (int i = 0; i < 6; i++)
        x = rotate_left(x, 7) + sink;
    return x;
}

/* A trap that nobody runs into, with code behind it that only jumps reach. */
static NOIPA uint32_t checked(uint32_t x, const uint32_t *from)
{
    if (!from)
        __builtin_trap();
    uint32_t sum = leaf(x ^ *from);
    while (sum & 3) {
        if (sum == 0x12345671)
            __builtin_trap();
        sum = leaf(sum) + leaf(x);
        if (sum & 0x100)
            return sum + leaf(sum);
    }
    return leaf(sum) ^ x;
}

/* Without a frame up to its trap, with one behind. */
static NOIPA uint32_t guarded(uint32_t x, uint32_t how)
{
    if (how > 8)
        __builtin_trap();
    if (how == 0)
        return x;
    return leaf(x) + checked(x, &x) + leaf(how);
}

enum { PUSH, ADD, MIX, CALL, LOOP, SPILL, END };

static NOIPA uint32_t interpret(const uint8_t *code, uint32_t x)
{
    static const void *const labels[] = { &&push, &&add, &&mix_, &&call, &&loop, &&spill, &&end };
    if (code[0] == END)
        return x;
    const uint8_t *start = code;
    uint32_t stack[900], *top = stack, turns = 6;
    *top = x;
#define NEXT goto *labels[*code++]
    NEXT;
push:
    *++top = leaf(*code++ + x);
    NEXT;
add:
    top--;
    *top += top[1];
    NEXT;
mix_:
    *top = mix(*top, leaf(top[0]));
    NEXT;
call:
    *top = checked(*top, top) + guarded(*top, *top & 7);
    NEXT;
loop:
    if (turns--)
        code = start;
    NEXT;
spill:
    stack[*top % 900] ^= leaf(*top);
    NEXT;
end:
    return *top + leaf(stack[7]);
}

/* Frames beyond what one instruction makes. */
static NOIPA uint32_t wide_frame(uint32_t depth, uint32_t x)
{
    volatile uint8_t local[2600];
    for (uint32_t i = 0; i < 2600; i += 650)
        local[i] = (uint8_t)(x + i);
    return depth ? wide_frame(depth - 1, leaf(x)) + local[650] : leaf(x) + local[1300];
}

#if defined __thumb__ && !defined __thumb2__
/* Without Thumb-2. All ways to its return are behind a switch, which gcc makes of a call of libgcc when it is to be
   small: what calls this must not be taken for something that nothing comes back to. */
#ifndef __clang__
__attribute__((optimize("Os")))
#endif
static NOIPA uint32_t decides(uint32_t how, uint32_t x)
{
    switch (how) {
    case 0: return leaf(x);
    case 1: return leaf(x + 1) + guarded(x, 3);
    case 2: return checked(x, &how) - 7;
    case 3: return leaf(leaf(x)) ^ how;
    case 4: return leaf(x * 3) + 2;
    case 5: return guarded(x, 5) + leaf(how);
    case 6: return leaf(x) - leaf(how);
    case 7: return checked(leaf(x), &x);
    default: __builtin_trap();
    }
}
static NOIPA uint32_t decides_twice(uint32_t x)
{
    x = mix(decides(x & 7, x), leaf(x));
    return leaf(x) + decides(x >> 3 & 7, x);
}
/* Registers enough and some words more: small code of LLVM's pushes r0 to r3, too, to make room for these. */
static NOIPA uint32_t spills(uint32_t *counts, uint32_t *order, const uint8_t *lengths, uint32_t low, uint32_t high,
                             uint32_t many)
{
    uint32_t at = 0, all = counts[0];
    for (uint32_t length = low; length <= high; length++)
        for (uint32_t i = 0; i < many; i++)
            if (lengths[i] == length)
                order[at++] = i;
    for (uint32_t i = 0; i < 8; i++)
        counts[i] = 0;
    for (uint32_t i = 0; i < many; i++)
        counts[lengths[i] + 1]++;
    for (uint32_t length = low + 1; length <= high; length++)
        counts[length] = (counts[length - 1] + 1 + many) - counts[length];
    for (uint32_t length = high; length > low; length--)
        order[length] += counts[length] - order[length - 1];
    return at + counts[high] + all;
}
static uint32_t small_code(uint32_t x)
{
    static const uint8_t lengths[8] = { 3, 1, 4, 1, 5, 2, 6, 5 };
    uint32_t counts[8] = { x }, order[8] = { 0 };
    for (uint32_t i = 0; i < 8; i++)
        x = mix(x, decides_twice(x + i) + spills(counts, order, lengths, x & 1, 4 + (x & 2), 8));
    return x + counts[1] + order[2];
}
#else
static uint32_t small_code(uint32_t x) { return x; }
#endif

static volatile uint32_t switched;
__attribute__((used)) static NOIPA void chooses(void) { switched = mix(switched, leaf(switched)); }

#ifdef __arm__
/* As kernels switch tasks: EXC_RETURN is in a register while C runs. */
__asm__(".globl __stack_size\n.set __stack_size, 0x3400\n"
        ".syntax unified\n.thumb\n.text\n.globl PendSV_Handler\n.type PendSV_Handler,%function\nPendSV_Handler:\n"
        "mov r3, lr\nmov r2, r4\nmrs r1, msp\nsubs r1, #8\nmsr msp, r1\nstr r2, [r1]\nstr r3, [r1, #4]\n"
        "bl chooses\nnop\nnop\nmrs r1, msp\nldr r4, [r1]\nldr r3, [r1, #4]\nadds r1, #8\nmsr msp, r1\nbx r3\n"
        ".size PendSV_Handler, . - PendSV_Handler\n");
static void pend(void)
{
    *(volatile uint32_t *)0xe000ed04 = 1u << 28;
    __asm__ volatile("dsb\nisb" ::: "memory");
}
#else
static void pend(void) { chooses(); }
#endif

int main(void)
{
    static const uint8_t program[] = { PUSH, 3, PUSH, 200, ADD, MIX, CALL, SPILL, LOOP, END };
    static const uint8_t nothing[] = { END };
    uint32_t sum = 1;
    for (uint32_t round = 0; round < 150; round++) {
        sum = mix(sum, interpret(program, round) + interpret(nothing, round));
        sum = mix(sum, wide_frame(2, sum) + guarded(sum, round % 9));
        sum = small_code(sum);
        pend();
    }
    print("bytecode: %08x\n", (unsigned)(sum ^ switched));
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
