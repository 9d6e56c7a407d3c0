/* What leaves a function otherwise than by its return: coroutines that switch sp by hand, from the depth of their
   own calls and one from within another; setjmp and longjmp; MicroPython's nlr, whose push is an assembly stub that
   ends in a jump into C, and whose jump is C that ends in assembly. */
#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))
enum { ROUNDS = 300, SAVED = 14, COROUTINES = 4, STACK_WORDS = 256 };

static volatile uint32_t sink;

/* switch_to: pushes what a callee keeps, swaps sp, pops and returns into the other one. coroutine_entry: where a
   new one begins; nobody called it. jump_save, jump_to: setjmp, longjmp. nlr_push: 0, or 1 when it was jumped to. */
void switch_to(uintptr_t *save_sp, uintptr_t sp);
void coroutine_entry(void);
uint32_t jump_save(uintptr_t *to) __attribute__((returns_twice));
void jump_to(uintptr_t *from, uint32_t value) __attribute__((noreturn));
struct nlr { struct nlr *before; uint32_t value; uintptr_t registers[SAVED]; };
uint32_t nlr_push(struct nlr *nlr) __attribute__((returns_twice));
uint32_t nlr_push_tail(struct nlr *nlr);
void coroutine_main(void);

#ifdef __riscv
#if __riscv_xlen == 64
__asm__(".macro SAVE r, n, b\nsd \\r, 8*\\n(\\b)\n.endm\n.macro LOAD r, n, b\nld \\r, 8*\\n(\\b)\n.endm\n.set WORD, 8\n");
#else
__asm__(".macro SAVE r, n, b\nsw \\r, 4*\\n(\\b)\n.endm\n.macro LOAD r, n, b\nlw \\r, 4*\\n(\\b)\n.endm\n.set WORD, 4\n");
#endif
#define KEPT(op, base)                                                                                            \
    op " s0, 2, " base "\n" op " s1, 3, " base "\n" op " s2, 4, " base "\n" op " s3, 5, " base "\n"               \
    op " s4, 6, " base "\n" op " s5, 7, " base "\n" op " s6, 8, " base "\n" op " s7, 9, " base "\n"               \
    op " s8, 10, " base "\n" op " s9, 11, " base "\n" op " s10, 12, " base "\n" op " s11, 13, " base "\n"
#define REGISTERS(op, base) op " ra, 0, " base "\n" op " sp, 1, " base "\n" KEPT(op, base)
__asm__(".text\n.globl switch_to\n.type switch_to,%function\nswitch_to:\n"
        "addi sp, sp, -16*WORD\nSAVE ra, 0, sp\n" KEPT("SAVE", "sp") "SAVE sp, 0, a0\nmv sp, a1\n"
        "LOAD ra, 0, sp\n" KEPT("LOAD", "sp") "addi sp, sp, 16*WORD\nret\n.size switch_to, . - switch_to\n"
        ".globl coroutine_entry\n.type coroutine_entry,%function\ncoroutine_entry:\n"
        "li ra, 0\ncall coroutine_main\n.size coroutine_entry, . - coroutine_entry\n"
        ".globl jump_save\n.type jump_save,%function\njump_save:\n" REGISTERS("SAVE", "a0")
        "li a0, 0\nret\n.size jump_save, . - jump_save\n"
        ".globl jump_to\n.type jump_to,%function\njump_to:\n" REGISTERS("LOAD", "a0")
        "mv a0, a1\nret\n.size jump_to, . - jump_to\n"
        ".globl nlr_push\n.type nlr_push,%function\nnlr_push:\naddi a1, a0, 2*WORD\n" REGISTERS("SAVE", "a1")
        "j nlr_push_tail\n.size nlr_push, . - nlr_push\n");
#define NLR_RETURN(nlr)                                                                                           \
    __asm__ volatile("mv a1, %0\n" REGISTERS("LOAD", "a1") "li a0, 1\nret\n" ::"r"((nlr)->registers) : "memory")
enum { SWITCH_WORDS = 16, SWITCH_RETURN = 0 };
#else
__asm__(".globl __stack_size\n.set __stack_size, 0x1400\n"
        ".syntax unified\n.thumb\n.text\n.globl switch_to\n.type switch_to,%function\nswitch_to:\n"
        "push {r4-r7, lr}\nmov r2, r8\nmov r3, r9\nmov r4, r10\nmov r5, r11\npush {r2-r5}\nmov r2, sp\n"
        "str r2, [r0]\nmov sp, r1\npop {r2-r5}\nmov r8, r2\nmov r9, r3\nmov r10, r4\nmov r11, r5\n"
        "pop {r4-r7, pc}\n.size switch_to, . - switch_to\n"
        ".globl coroutine_entry\n.type coroutine_entry,%function\n.thumb_func\ncoroutine_entry:\n"
        "bl coroutine_main\n.size coroutine_entry, . - coroutine_entry\n"
        ".globl jump_save\n.type jump_save,%function\njump_save:\n"
        "mov r1, r8\nmov r2, r9\nmov r3, r10\nstmia r0!, {r1-r7}\nmov r1, r11\nmov r2, sp\nmov r3, lr\n"
        "stmia r0!, {r1-r3}\nmovs r0, #0\nbx lr\n.size jump_save, . - jump_save\n"
        ".globl jump_to\n.type jump_to,%function\njump_to:\n"
        "mov r12, r1\nldmia r0!, {r1-r7}\nmov r8, r1\nmov r9, r2\nmov r10, r3\nldmia r0!, {r1-r3}\n"
        "mov r11, r1\nmov sp, r2\nmov r0, r12\nbx r3\n.size jump_to, . - jump_to\n"
        ".globl nlr_push\n.type nlr_push,%function\nnlr_push:\n"
        "mov r1, lr\nstr r1, [r0, #8]\nstr r4, [r0, #12]\nstr r5, [r0, #16]\nstr r6, [r0, #20]\n"
        "str r7, [r0, #24]\nmov r1, r8\nmov r2, r9\nmov r3, r10\nstr r1, [r0, #28]\nstr r2, [r0, #32]\n"
        "str r3, [r0, #36]\nmov r1, r11\nmov r2, sp\nstr r1, [r0, #40]\nstr r2, [r0, #44]\n"
        "ldr r1, =nlr_push_tail\nbx r1\n.ltorg\n.size nlr_push, . - nlr_push\n");
#define NLR_RETURN(nlr)                                                                                           \
    __asm__ volatile("mov r0, %0\nldr r4, [r0, #4]\nldr r5, [r0, #8]\nldr r6, [r0, #12]\nldr r7, [r0, #16]\n"     \
                     "ldr r1, [r0, #20]\nldr r2, [r0, #24]\nldr r3, [r0, #28]\nmov r8, r1\nmov r9, r2\n"          \
                     "mov r10, r3\nldr r1, [r0, #32]\nldr r2, [r0, #36]\nmov r11, r1\nmov sp, r2\n"               \
                     "ldr r1, [r0]\nmov lr, r1\nmovs r0, #1\nbx lr\n" ::"r"((nlr)->registers) : "memory")
enum { SWITCH_WORDS = 9, SWITCH_RETURN = 8 };
#endif

static NOIPA uint32_t leaf(uint32_t x)
{
    for (int i = 0; i < 8; i++)
        x = rotate_left(x, 3) + 0x9e3779b1u + sink;
    return x;
}

/* ---- coroutines: each hands values to whoever resumed it ---- */

struct coroutine {
    uintptr_t sp, resumer_sp;
    struct coroutine *resumer;
    void (*body)(uint32_t x);
    uint32_t x, value;
    int is_done;
    uintptr_t stack[STACK_WORDS] __attribute__((aligned(16)));
};
static struct coroutine coroutines[COROUTINES], *current;

static NOIPA void begin(struct coroutine *coroutine, void (*body)(uint32_t), uint32_t x)
{
    uintptr_t *sp = coroutine->stack + STACK_WORDS - 4 - SWITCH_WORDS;
    for (int i = 0; i < SWITCH_WORDS; i++)
        sp[i] = 0;
    sp[SWITCH_RETURN] = (uintptr_t)coroutine_entry;
    coroutine->sp = (uintptr_t)sp;
    coroutine->body = body;
    coroutine->x = x;
    coroutine->is_done = 0;
}

static NOIPA uint32_t resume(struct coroutine *coroutine)
{
    coroutine->resumer = current;
    current = coroutine;
    switch_to(&coroutine->resumer_sp, coroutine->sp);
    return coroutine->value;
}

static NOIPA void yield(uint32_t value)
{
    struct coroutine *self = current;
    self->value = leaf(value);
    current = self->resumer;
    switch_to(&self->sp, self->resumer_sp);
}

__attribute__((used, noreturn)) void coroutine_main(void)
{
    current->body(current->x);
    current->is_done = 1;
    for (;;)
        yield(0);
}

/* Yields from every depth on its way down and up. */
static NOIPA void walk(uint32_t depth, uint32_t x)
{
    if (depth & 1)
        yield(x);
    if (depth) {
        walk(depth - 1, leaf(x));
        sink = sink; /* no tail call */
    }
    if (depth == 3)
        yield(leaf(x));
}
static NOIPA void walker(uint32_t x) { walk(5, x); walk(3, x ^ 1); }

static NOIPA void counter(uint32_t x)
{
    for (uint32_t i = 0; i < 12; i++)
        yield(leaf(x + i));
}

/* A coroutine that resumes another one. */
static NOIPA void filter(uint32_t x)
{
    struct coroutine *inner = &coroutines[3];
    begin(inner, walker, x);
    for (uint32_t value = resume(inner); !inner->is_done; value = resume(inner))
        if (value & 1)
            yield(value);
}

static NOIPA uint32_t coroutine_round(uint32_t round)
{
    uint32_t sum = 0;
    begin(&coroutines[0], walker, round);
    begin(&coroutines[1], counter, round);
    begin(&coroutines[2], filter, round);
    for (uint32_t turn = 0; turn < 9; turn++) {
        sum = mix(sum, resume(&coroutines[turn % 3]));
        if (turn == 4)
            begin(&coroutines[1], walker, sum); /* the old one is gone, in the middle of its work */
    }
    return leaf(sum);
}

/* ---- setjmp and longjmp ---- */

static uintptr_t outer[SAVED], inner[SAVED];

#pragma GCC diagnostic ignored "-Winfinite-recursion" /* it ends in the jump */
static NOIPA uint32_t dive(uint32_t depth, uint32_t x)
{
    if (!depth)
        jump_to(x & 1 ? inner : outer, leaf(x) | 1);
    return dive(depth - 1, leaf(x)) + 1;
}
static NOIPA uint32_t try_inner(uint32_t x)
{
    uint32_t thrown = jump_save(inner);
    return thrown ? leaf(thrown) : dive(6, x);
}
static NOIPA uint32_t try_outer(uint32_t x)
{
    uint32_t thrown = jump_save(outer);
    return thrown ? thrown ^ leaf(x) : try_inner(x) + leaf(x);
}
/* Out of a coroutine, for good. */
static NOIPA void thrower(uint32_t x) { walk(2, x); dive(4, x); }
static NOIPA uint32_t try_coroutine(uint32_t x)
{
    struct coroutine *self = current;
    uint32_t thrown = jump_save(outer);
    if (!thrown) {
        if (jump_save(inner))
            return current = self, leaf(x);
        begin(&coroutines[0], thrower, x);
        thrown = resume(&coroutines[0]);
        thrown += resume(&coroutines[0]);
    }
    current = self;
    return leaf(thrown);
}

/* ---- nlr ---- */

static struct nlr *nlr_top;

__attribute__((used)) uint32_t nlr_push_tail(struct nlr *nlr)
{
    nlr->before = nlr_top;
    nlr_top = nlr;
    return 0;
}
static NOIPA void nlr_pop(void) { nlr_top = nlr_top->before; }
static NOIPA __attribute__((noreturn)) void nlr_jump(uint32_t value)
{
    struct nlr *top = nlr_top;
    top->value = value;
    nlr_top = top->before;
    NLR_RETURN(top);
    __builtin_unreachable();
}

static NOIPA __attribute__((noreturn)) void raise(uint32_t x) { nlr_jump(leaf(x)); }
static NOIPA uint32_t evaluate(uint32_t depth, uint32_t x)
{
    if (!depth) {
        if (x & 4)
            raise(x);
        return leaf(x);
    }
    if (depth != 3)
        return evaluate(depth - 1, leaf(x)) + 1;
    struct nlr nlr;
    uint32_t result;
    if (!nlr_push(&nlr)) {
        result = evaluate(depth - 1, x ^ depth);
        nlr_pop();
    } else {
        if (nlr.value & 1)
            raise(nlr.value); /* again */
        result = nlr.value;
    }
    return leaf(result);
}
static NOIPA uint32_t execute(uint32_t x)
{
    struct nlr nlr;
    if (nlr_push(&nlr))
        return leaf(nlr.value);
    uint32_t result = evaluate(6, x);
    nlr_pop();
    return result;
}

int main(void)
{
    uint32_t sum = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sum = mix(sum, coroutine_round(round));
        sum = mix(sum, try_outer(sum));
        sum = mix(sum, try_coroutine(sum));
        sum = mix(sum, execute(sum));
        if (round % 100 == 99)
            print("jumps: %u rounds %08x\n", (unsigned)round + 1, (unsigned)sum);
    }
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
