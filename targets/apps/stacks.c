/* Everything that makes a stack hard to walk: frames of all sizes, recursion through several functions and
   through pointers, frames of variable size, tail calls, a jump out of the depth, functions that never
   return, and leaves in assembly. */
#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))

static volatile uint32_t sink;

/* A leaf without unwind information, and one that keeps its return address on the stack. */
uint32_t asm_leaf(uint32_t x);
uint32_t asm_caller(uint32_t x);
#ifdef __riscv
#define WORD (__riscv_xlen / 8)
#define STR(x) #x
#define XSTR(x) STR(x)
#if __riscv_xlen == 64
#define SAVE "sd"
#define RESTORE "ld"
#else
#define SAVE "sw"
#define RESTORE "lw"
#endif
__asm__(".text\n.globl asm_leaf\n.type asm_leaf,%function\nasm_leaf:\n"
        "li t0, 20\n1: addi a0, a0, 3\naddi t0, t0, -1\nbnez t0, 1b\nret\n.size asm_leaf, . - asm_leaf\n"
        ".globl asm_caller\n.type asm_caller,%function\nasm_caller:\n"
        "addi sp, sp, -32\n" SAVE " ra, 24(sp)\n" SAVE " s0, 16(sp)\nmv s0, a0\ncall asm_leaf\nadd a0, a0, s0\n"
        "call asm_leaf\n" RESTORE " s0, 16(sp)\n" RESTORE " ra, 24(sp)\naddi sp, sp, 32\nret\n"
        ".size asm_caller, . - asm_caller\n");
#else
__asm__(".syntax unified\n.thumb\n.text\n.globl asm_leaf\n.type asm_leaf,%function\nasm_leaf:\n"
        "movs r1, #20\n1: adds r0, #3\nsubs r1, #1\nbne 1b\nbx lr\n.size asm_leaf, . - asm_leaf\n"
        ".globl asm_caller\n.type asm_caller,%function\nasm_caller:\n"
        "push {r4, r5, lr}\nsub sp, #12\nmovs r4, r0\nbl asm_leaf\nadds r0, r0, r4\nbl asm_leaf\nadd sp, #12\n"
        "pop {r4, r5, pc}\n.size asm_caller, . - asm_caller\n");
#endif

static NOIPA uint32_t leaf(uint32_t x)
{
    for (int i = 0; i < 6; i++)
        x = rotate_left(x, 5) + sink;
    return x;
}

static NOIPA uint32_t small_frame(uint32_t depth, uint32_t x)
{
    if (!depth)
        return leaf(x) ^ asm_caller(x);
    return small_frame(depth - 1, x + depth) + leaf(depth);
}

static NOIPA uint32_t large_frame(uint32_t depth, uint32_t x)
{
    volatile uint32_t local[80];
    for (int i = 0; i < 80; i += 15)
        local[i] = x + (uint32_t)i;
    return depth ? large_frame(depth - 1, x ^ local[15]) + local[30] : leaf(local[45]);
}

static NOIPA uint32_t huge_frame(uint32_t x)
{
    volatile uint8_t local[900];
    local[x % 900] = (uint8_t)x;
    return leaf(x) + large_frame(2, x) + local[x % 900];
}

/* The frame's size is only known as it runs. */
static NOIPA uint32_t variable_frame(uint32_t words, uint32_t x)
{
    volatile uint32_t local[words];
    for (uint32_t i = 0; i < words; i++)
        local[i] = leaf(x + i);
    return words > 1 ? variable_frame(words - 1, local[words - 1]) + local[0] : local[0];
}

static uint32_t odd(uint32_t n, uint32_t x);
static NOIPA uint32_t even(uint32_t n, uint32_t x) { return n ? odd(n - 1, x + leaf(n)) : leaf(x); } /* a tail call */
static NOIPA uint32_t odd(uint32_t n, uint32_t x) { return n ? even(n - 1, x ^ leaf(n)) + 1 : asm_leaf(x); }

#ifdef EXIDX
/* What the exception tables refer to; nobody throws. */
void __aeabi_unwind_cpp_pr0(void) {}
void __aeabi_unwind_cpp_pr1(void) {}
void __aeabi_unwind_cpp_pr2(void) {}
#endif

typedef uint32_t visitor(uint32_t depth, uint32_t x);
static NOIPA uint32_t visit(visitor *next, uint32_t depth, uint32_t x) { return next(depth, x) + leaf(x); }

/* Saves many registers, and only where it needs them. */
static NOIPA uint32_t many_registers(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    if (a < 3)
        return b;
    uint32_t e = leaf(a), f = leaf(b), g = leaf(c), h = leaf(d), i = leaf(a ^ b), j = leaf(c ^ d);
    return (e + f * g) ^ (h + i * j) ^ leaf(e + g + i) ^ (f - h + j);
}

static void *out[5];
static uint32_t carried;

/* Never returns, and works for long: nobody needs its return address, so it is not kept. */
static NOIPA __attribute__((noreturn)) void leaves_by_jump(uint32_t x)
{
    for (int i = 0; i < 40; i++)
        x = leaf(x) + small_frame(2, x);
    carried = x;
    __builtin_longjmp(out, 1);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion" /* it ends in the jump */
static NOIPA void deep(uint32_t depth, uint32_t x)
{
    if (depth)
        deep(depth - 1, x + 1);
    else
        leaves_by_jump(x);
    sink = x; /* no tail call */
}

static NOIPA uint32_t jump_out(uint32_t x)
{
    if (__builtin_setjmp(out))
        return carried + leaf(carried);
    deep(5, x);
    return 0;
}

static NOIPA __attribute__((noreturn)) void finish(uint32_t sum)
{
    for (int i = 0; i < 400; i++)
        sum = leaf(sum) + small_frame(3, sum);
    print("stacks: %08x\n", (unsigned)sum);
    board_exit(0);
}

int main(void)
{
    static visitor *const visitors[] = { small_frame, large_frame, variable_frame, even };
    uint32_t sum = 1;
    for (uint32_t round = 0; round < 120; round++) {
        sum += small_frame(16, round) + huge_frame(round) + variable_frame(7, round) + even(11, round);
        for (unsigned kind = 0; kind < 4; kind++)
            sum ^= visit(visitors[kind], 1 + (round & 3), sum);
        sum += many_registers(round, sum, 7, 9) + asm_caller(sum);
        sum = mix(sum, jump_out(round));
    }
    finish(sum);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
