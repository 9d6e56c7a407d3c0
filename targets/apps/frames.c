/* More of what makes a stack hard to walk (stacks.c has the rest): a frame of 5,000 bytes, frames that grow and
   shrink as they run, variable arguments, structures by value, registers saved on one path only, callbacks
   below a sort, state machines of tail calls through a table, assembly without unwind information in the middle
   of a stack, calls that are their function's last instruction, jumps out of the depth. */
#include <stdarg.h>

#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))
enum { ROUNDS = 100, ELEMENTS = 24 };

static volatile uint32_t sink;

/* asm_between: two words that no one describes, and a call back into C. jump_save, jump_to: setjmp, longjmp. */
typedef uint32_t function(uint32_t depth, uint32_t x);
uint32_t asm_between(uint32_t depth, uint32_t x, function *next);
uint32_t jump_save(uintptr_t *to) __attribute__((returns_twice));
void jump_to(uintptr_t *from, uint32_t value) __attribute__((noreturn));
#ifdef __riscv
#if __riscv_xlen == 64
__asm__(".macro SAVE r, n, b\nsd \\r, 8*\\n(\\b)\n.endm\n.macro LOAD r, n, b\nld \\r, 8*\\n(\\b)\n.endm\n");
#else
__asm__(".macro SAVE r, n, b\nsw \\r, 4*\\n(\\b)\n.endm\n.macro LOAD r, n, b\nlw \\r, 4*\\n(\\b)\n.endm\n");
#endif
#define REGISTERS(op)                                                                                             \
    op " ra, 0, a0\n" op " sp, 1, a0\n" op " s0, 2, a0\n" op " s1, 3, a0\n" op " s2, 4, a0\n" op " s3, 5, a0\n"   \
    op " s4, 6, a0\n" op " s5, 7, a0\n" op " s6, 8, a0\n" op " s7, 9, a0\n" op " s8, 10, a0\n"                    \
    op " s9, 11, a0\n" op " s10, 12, a0\n" op " s11, 13, a0\n"
__asm__(".text\n.globl asm_between\n.type asm_between,%function\nasm_between:\n"
        "addi sp, sp, -48\nSAVE ra, 3, sp\nSAVE s1, 1, sp\nmv s1, a1\njalr a2\nxor a0, a0, s1\n"
        "LOAD s1, 1, sp\nLOAD ra, 3, sp\naddi sp, sp, 48\nret\n.size asm_between, . - asm_between\n"
        ".globl jump_save\n.type jump_save,%function\njump_save:\n" REGISTERS("SAVE")
        "li a0, 0\nret\n.size jump_save, . - jump_save\n"
        ".globl jump_to\n.type jump_to,%function\njump_to:\n" REGISTERS("LOAD")
        "mv a0, a1\nret\n.size jump_to, . - jump_to\n");
#else
__asm__(".globl __stack_size\n.set __stack_size, 0x2c00\n"
        ".syntax unified\n.thumb\n.text\n.globl asm_between\n.type asm_between,%function\nasm_between:\n"
        "push {r4, r5, lr}\nsub sp, #20\nmovs r4, r1\nblx r2\neors r0, r4\nadd sp, #20\npop {r4, r5, pc}\n"
        ".size asm_between, . - asm_between\n"
        ".globl jump_save\n.type jump_save,%function\njump_save:\n"
        "mov r1, r8\nmov r2, r9\nmov r3, r10\nstmia r0!, {r1-r7}\nmov r1, r11\nmov r2, sp\nmov r3, lr\n"
        "stmia r0!, {r1-r3}\nmovs r0, #0\nbx lr\n.size jump_save, . - jump_save\n"
        ".globl jump_to\n.type jump_to,%function\njump_to:\n"
        "mov r12, r1\nldmia r0!, {r1-r7}\nmov r8, r1\nmov r9, r2\nmov r10, r3\nldmia r0!, {r1-r3}\n"
        "mov r11, r1\nmov sp, r2\nmov r0, r12\nbx r3\n.size jump_to, . - jump_to\n");
#endif

static NOIPA uint32_t leaf(uint32_t x)
{
    for (int i = 0; i < 8; i++)
        x = rotate_left(x, 3) + 0x9e3779b1u + sink;
    return x;
}

/* ---- recursion through a table, by functions whose frames have 8, 100, 640 and 1,500 bytes more ---- */

static function *const table[4];
static uint32_t descend(uint32_t depth, uint32_t x) { return depth ? table[x >> 7 & 3](depth - 1, leaf(x)) : leaf(x); }
#define FRAME(name, bytes)                                                                                        \
    static NOIPA uint32_t name(uint32_t depth, uint32_t x)                                                        \
    {                                                                                                             \
        volatile uint8_t local[bytes];                                                                            \
        uint32_t at = x % bytes;                                                                                  \
        local[at] = (uint8_t)x;                                                                                   \
        return (descend(depth, x + 1) ^ leaf(depth)) + local[at];                                                 \
    }
FRAME(frame_8, 8)
FRAME(frame_100, 100)
FRAME(frame_640, 640)
FRAME(frame_1500, 1500)
static function *const table[4] = { frame_8, frame_100, frame_640, frame_1500 };

static NOIPA uint32_t frame_5000(uint32_t x)
{
    volatile uint8_t local[5000];
    for (uint32_t i = 0; i < 5000; i += 499)
        local[i] = (uint8_t)(x + i);
    return leaf(x) + frame_640(1, x) + local[499 * (x % 10)];
}

/* ---- frames that change while they are there ---- */

static NOIPA uint32_t alloca_grows(uint32_t turns, uint32_t x)
{
    volatile uint32_t *last = 0;
    for (uint32_t i = 0; i < turns; i++) {
        volatile uint32_t *more = __builtin_alloca(4 + 4 * (i * 5 % 7));
        more[0] = last ? leaf(last[0] + i) : leaf(x);
        last = more;
    }
    return last ? last[0] : x;
}

static NOIPA uint32_t vla_comes_and_goes(uint32_t turns, uint32_t x)
{
    uint32_t sum = x;
    for (uint32_t i = 1; i <= turns; i++) {
        volatile uint32_t local[i * 11 % 40 + 1];
        local[0] = leaf(sum);
        sum = turns > 2 ? vla_comes_and_goes(2, local[0]) + i : alloca_grows(3, local[0]);
    }
    return leaf(sum); /* the array is gone */
}

/* ---- arguments ---- */

static NOIPA uint32_t add_list(int n, va_list list)
{
    uint32_t sum = 0;
    while (n--)
        sum = leaf(sum + va_arg(list, uint32_t));
    return sum;
}
static NOIPA uint32_t add_all(int n, ...)
{
    va_list list;
    va_start(list, n);
    uint32_t sum = add_list(n, list);
    va_end(list);
    return leaf(sum);
}

struct block { uint32_t words[12]; };
static NOIPA struct block by_value(struct block block, uint32_t depth)
{
    for (int i = 0; i < 12; i++)
        block.words[i] += leaf(block.words[11 - i]);
    return depth ? by_value(block, depth - 1) : block;
}
static NOIPA uint32_t ten_arguments(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t f, uint32_t g,
                                    uint32_t h, uint32_t i, uint32_t j)
{
    return leaf(a + b) ^ leaf(c - d) ^ leaf(e + f) ^ leaf(g - h) ^ leaf(i + j);
}
static NOIPA uint64_t divides(uint64_t x, uint64_t by) { return x / by + x % (by + 1); } /* libgcc, on 32 bits */

/* ---- registers and frame only on one path, and early returns ---- */

static NOIPA uint32_t shrink_wrapped(uint32_t x, uint32_t how)
{
    if (how == 0)
        return x + 1;
    if (how == 1)
        return leaf(x); /* a tail call */
    uint32_t a = leaf(x), b = leaf(a), c = leaf(b), d = leaf(c), e = leaf(d), f = leaf(e), g = leaf(f);
    if (how == 2)
        return a ^ b ^ c ^ d ^ e ^ f ^ g;
    uint32_t h = leaf(g + a), i = leaf(h + b), j = leaf(i + c), k = leaf(j + d);
    if (how == 3)
        return ten_arguments(a, b, c, d, e, f, g, h, i, j) + k;
    volatile uint32_t spill[90];
    spill[how] = k;
    return leaf(a + b * c) ^ leaf(d + e * f) ^ leaf(g + h * i) ^ leaf(j + spill[how]);
}

/* ---- callbacks ---- */

typedef int comparison(uint32_t a, uint32_t b);
static NOIPA int ascending(uint32_t a, uint32_t b) { return a < b ? -1 : a > b; }
static NOIPA int by_leaf(uint32_t a, uint32_t b) { return ascending(leaf(a), leaf(b)); }
static NOIPA void sort_by(uint32_t *values, int n, comparison *compare)
{
    if (n < 2)
        return;
    int last = 0;
    for (int i = 1; i < n; i++) {
        if (compare(values[i], values[0]) < 0) {
            uint32_t t = values[++last];
            values[last] = values[i];
            values[i] = t;
        }
    }
    uint32_t t = values[0];
    values[0] = values[last];
    values[last] = t;
    sort_by(values, last, compare);
    sort_by(values + last + 1, n - last - 1, compare); /* a tail call */
}

/* ---- a state machine: each state's last act is a jump to the next one, through a table ---- */

static function *const states[4];
#define STATE(name, term)                                                                                         \
    static NOIPA uint32_t name(uint32_t left, uint32_t x)                                                         \
    {                                                                                                             \
        x = leaf(x) + (term);                                                                                     \
        return left ? states[x >> 9 & 3](left - 1, x) : x;                                                        \
    }
STATE(state_idle, 1)
STATE(state_reading, leaf(left))
STATE(state_writing, x >> 3)
STATE(state_waiting, leaf(x ^ left))
static function *const states[4] = { state_idle, state_reading, state_writing, state_waiting };

/* ---- functions that do not return, called where nothing follows ---- */

static uintptr_t resume_at[14];

static NOIPA __attribute__((noreturn)) void gives_up(uint32_t x)
{
    for (int i = 0; i < 6; i++)
        x = leaf(x) + frame_100(1, x);
    jump_to(resume_at, x | 1);
}
/* The call is the last instruction: its return address is the next function's first. */
static NOIPA uint32_t must_be_even(uint32_t x)
{
    if (!(x & 1))
        return leaf(x);
    gives_up(x);
}
static NOIPA __attribute__((noreturn)) void always_gives_up(uint32_t x) { gives_up(leaf(x)); }
static NOIPA uint32_t climbs(uint32_t depth, uint32_t x)
{
    if (depth)
        return climbs(depth - 1, leaf(x)) + 1;
    if (x & 2)
        always_gives_up(x);
    return must_be_even(x | 1);
}
static NOIPA uint32_t tries(uint32_t x)
{
    uint32_t thrown = jump_save(resume_at);
    return thrown ? leaf(thrown) : asm_between(4, x, climbs);
}

/* main's work is done here, and never comes back. */
static NOIPA __attribute__((noreturn)) void rest_of_the_run(uint32_t sum)
{
    for (uint32_t i = 0; i < 4 * ROUNDS; i++)
        sum = state_idle(9, sum) + frame_8(4, sum + i) + must_be_even(i * 2);
    print("frames: the rest %08x\n", (unsigned)sum);
    board_exit(0);
}

int main(void)
{
    uint32_t sum = 1, values[ELEMENTS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sum = mix(sum, frame_8(4, round) + frame_5000(round));
        sum = mix(sum, alloca_grows(round & 15, sum) + vla_comes_and_goes(5, sum));
        sum = mix(sum, add_all(9, sum, 2u, 3u, round, 5u, 6u, 7u, 8u, sum) + add_all(1, round));
        struct block block = by_value((struct block){ { sum, round, 3 } }, 2);
        sum = mix(sum, block.words[round % 12]);
        sum = mix(sum, (uint32_t)divides((uint64_t)sum << 23 ^ round, (uint64_t)round << 14 | 77));
        sum = mix(sum, shrink_wrapped(sum, round % 5));
        for (int i = 0; i < ELEMENTS; i++)
            values[i] = sum + leaf((uint32_t)i);
        sort_by(values, ELEMENTS, round & 1 ? ascending : by_leaf);
        sum = mix(sum, values[round % ELEMENTS]);
        sum = mix(sum, asm_between(3, sum, states[round & 3]) + asm_between(2, sum, descend));
        sum = mix(sum, tries(round));
        if (round % 25 == 24)
            print("frames: %u rounds %08x\n", (unsigned)round + 1, (unsigned)sum);
    }
    rest_of_the_run(sum);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
