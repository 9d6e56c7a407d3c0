/* A small virtual machine, as interpreters of scripts are built: short pieces of code behind an indirect jump, a stack
   and variables in memory, calls of built-in functions through a table. It runs the same programs twice: dispatched by
   computed goto, and by switch. */
#include "board.h"
#include "text.h"
#include "work.h"

#ifndef REPEAT
#define REPEAT 1
#endif

enum op {
    PUSH, GET, SET, ADD, SUB, MUL, AND, SHIFT, LESS, SAME, JUMP, UNLESS, FETCH, PLACE, BUILTIN, CALL, RETURN, DROP, STOP,
    OPS
};
enum { CELLS = 512, CODE = 512, STACK = 256 };

/* All data that is written begins a page: QEMU is slow at each store to a page that code was translated from. */
static uint8_t code[CODE] __attribute__((aligned(4096)));
static unsigned length;
static int32_t cells[CELLS];

/* ---- what the programs are written with ---- */

static void emit(enum op op) { code[length++] = (uint8_t)op; }
static void emit1(enum op op, unsigned operand) { emit(op), code[length++] = (uint8_t)operand; }
static unsigned emit2(enum op op, unsigned operand)
{
    emit1(op, operand & 0xff), code[length++] = (uint8_t)(operand >> 8);
    return length - 2;
}
static void land(unsigned at) { code[at] = (uint8_t)length, code[at + 1] = (uint8_t)(length >> 8); }

/* ---- built-in functions ---- */

static uint32_t random_state;

static int32_t builtin_random(int32_t limit) { return (int32_t)(xorshift(&random_state) % (uint32_t)limit); }
static int32_t builtin_sign(int32_t x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
static int32_t builtin_fold(int32_t x)
{
    static uint32_t sum;
    return (int32_t)((sum = mix(sum, (uint32_t)x)) & 0xffff);
}
static int32_t (*const builtins[])(int32_t) = { builtin_random, builtin_sign, builtin_fold };
enum { RANDOM, SIGN, FOLD };

/* ---- the two machines ---- */

#define OPERAND (*pc++)
#define WIDE (pc += 2, pc[-2] | pc[-1] << 8)
#define BINARY(expression)                                                                                            \
    {                                                                                                                 \
        int32_t b = *sp--, a = *sp;                                                                                   \
        *sp = (expression);                                                                                           \
    }

/* A frame: the caller's pc and frame, then sixteen variables. */
#define BODY                                                                                                          \
    CASE(PUSH) *++sp = (int16_t)WIDE; NEXT;                                                                           \
    CASE(GET) *++sp = frame[OPERAND]; NEXT;                                                                           \
    CASE(SET) frame[OPERAND] = *sp--; NEXT;                                                                           \
    CASE(ADD) BINARY(a + b) NEXT;                                                                                     \
    CASE(SUB) BINARY(a - b) NEXT;                                                                                     \
    CASE(MUL) BINARY(a * b) NEXT;                                                                                     \
    CASE(AND) BINARY(a & b) NEXT;                                                                                     \
    CASE(SHIFT) BINARY(b < 0 ? a >> -b : a << b) NEXT;                                                                \
    CASE(LESS) BINARY(a < b) NEXT;                                                                                    \
    CASE(SAME) BINARY(a == b) NEXT;                                                                                   \
    CASE(JUMP) pc = code + WIDE; NEXT;                                                                                \
    CASE(UNLESS) { unsigned to = WIDE; if (!*sp--) pc = code + to; } NEXT;                                            \
    CASE(FETCH) *sp = cells[*sp & (CELLS - 1)]; NEXT;                                                                 \
    CASE(PLACE) sp -= 2; cells[sp[1] & (CELLS - 1)] = sp[2]; NEXT;                                                    \
    CASE(BUILTIN) *sp = builtins[OPERAND](*sp); NEXT;                                                                 \
    CASE(CALL) {                                                                                                      \
        unsigned to = WIDE;                                                                                           \
        int32_t argument = *sp;                                                                                       \
        *sp++ = (int32_t)(pc - code);                                                                                 \
        *sp = (int32_t)(frame - stack);                                                                               \
        frame = sp + 1;                                                                                               \
        sp += 4;                                                                                                      \
        frame[0] = argument;                                                                                          \
        pc = code + to;                                                                                               \
    } NEXT;                                                                                                           \
    CASE(RETURN) {                                                                                                    \
        int32_t result = *sp;                                                                                         \
        sp = frame - 2;                                                                                               \
        pc = code + sp[0];                                                                                            \
        frame = stack + sp[1];                                                                                        \
        *sp = result;                                                                                                 \
    } NEXT;                                                                                                           \
    CASE(DROP) sp--; NEXT;                                                                                            \
    CASE(STOP) return *sp;

static int32_t stack[STACK];

static __attribute__((noipa)) int32_t run_by_goto(const uint8_t *pc)
{
    static const void *const labels[OPS] = {
        &&PUSH_, &&GET_, &&SET_, &&ADD_, &&SUB_, &&MUL_, &&AND_, &&SHIFT_, &&LESS_, &&SAME_, &&JUMP_, &&UNLESS_,
        &&FETCH_, &&PLACE_, &&BUILTIN_, &&CALL_, &&RETURN_, &&DROP_, &&STOP_,
    };
    int32_t *frame = stack, *sp = stack + 16;
#define CASE(op) op##_:
#define NEXT goto *labels[*pc++]
    NEXT;
    BODY
#undef CASE
#undef NEXT
}

static __attribute__((noipa, optimize("no-jump-tables"))) int32_t run_by_tests(const uint8_t *pc);

static __attribute__((noipa)) int32_t run_by_switch(const uint8_t *pc)
{
    int32_t *frame = stack, *sp = stack + 16;
#define CASE(op) case op:
#define NEXT break
    for (;;)
        switch ((enum op)*pc++) {
            BODY
        case OPS:
            return -1;
        }
}

/* The same switch as a tree of comparisons, which is what compilers make of small ones. */
static int32_t run_by_tests(const uint8_t *pc)
{
    int32_t *frame = stack, *sp = stack + 16;
    for (;;)
        switch ((enum op)*pc++) {
            BODY
        case OPS:
            return -1;
        }
}
#undef CASE
#undef NEXT

/* ---- the programs ---- */

/* Counts the primes below CELLS. */
static unsigned sieve(void)
{
    enum { I, J, COUNT };
    unsigned start = length;
    emit2(PUSH, 0), emit1(SET, COUNT), emit2(PUSH, 2), emit1(SET, I);
    unsigned clear = length;
    emit1(GET, I), emit2(PUSH, 0), emit(PLACE), emit1(GET, I), emit2(PUSH, 1), emit(ADD), emit1(SET, I);
    emit1(GET, I), emit2(PUSH, CELLS), emit(LESS);
    unsigned cleared = emit2(UNLESS, 0);
    emit2(JUMP, clear), land(cleared), emit2(PUSH, 2), emit1(SET, I);
    unsigned outer = length;
    emit1(GET, I), emit(FETCH), emit2(PUSH, 0), emit(SAME);
    unsigned composite = emit2(UNLESS, 0);
    emit1(GET, COUNT), emit2(PUSH, 1), emit(ADD), emit1(SET, COUNT), emit1(GET, I), emit1(GET, I), emit(ADD), emit1(SET, J);
    unsigned inner = length;
    emit1(GET, J), emit2(PUSH, CELLS), emit(LESS);
    unsigned done = emit2(UNLESS, 0);
    emit1(GET, J), emit2(PUSH, 1), emit(PLACE), emit1(GET, J), emit1(GET, I), emit(ADD), emit1(SET, J);
    emit2(JUMP, inner), land(done), land(composite);
    emit1(GET, I), emit2(PUSH, 1), emit(ADD), emit1(SET, I), emit1(GET, I), emit2(PUSH, CELLS), emit(LESS);
    unsigned end = emit2(UNLESS, 0);
    emit2(JUMP, outer), land(end), emit1(GET, COUNT), emit(STOP);
    return start;
}

/* Sorts 48 random numbers by insertion and folds them. */
static unsigned sort(void)
{
    enum { I, J, X, SUM, N = 48 };
    unsigned start = length;
    emit2(PUSH, 0), emit1(SET, I);
    unsigned fill = length;
    emit1(GET, I), emit2(PUSH, 10000), emit1(BUILTIN, RANDOM), emit(PLACE);
    emit1(GET, I), emit2(PUSH, 1), emit(ADD), emit1(SET, I), emit1(GET, I), emit2(PUSH, N), emit(LESS);
    unsigned filled = emit2(UNLESS, 0);
    emit2(JUMP, fill), land(filled), emit2(PUSH, 1), emit1(SET, I);
    unsigned outer = length;
    emit1(GET, I), emit(FETCH), emit1(SET, X), emit1(GET, I), emit1(SET, J);
    unsigned inner = length;
    emit2(PUSH, 0), emit1(GET, J), emit(LESS);
    unsigned lowest = emit2(UNLESS, 0);
    emit1(GET, X), emit1(GET, J), emit2(PUSH, 1), emit(SUB), emit(FETCH), emit(SUB), emit1(BUILTIN, SIGN), emit2(PUSH, 0),
        emit(LESS);
    unsigned found = emit2(UNLESS, 0);
    emit1(GET, J), emit1(GET, J), emit2(PUSH, 1), emit(SUB), emit(FETCH), emit(PLACE);
    emit1(GET, J), emit2(PUSH, 1), emit(SUB), emit1(SET, J), emit2(JUMP, inner), land(lowest), land(found);
    emit1(GET, J), emit1(GET, X), emit(PLACE);
    emit1(GET, I), emit2(PUSH, 1), emit(ADD), emit1(SET, I), emit1(GET, I), emit2(PUSH, N), emit(LESS);
    unsigned sorted = emit2(UNLESS, 0);
    emit2(JUMP, outer), land(sorted), emit2(PUSH, 0), emit1(SET, I), emit2(PUSH, 0), emit1(SET, SUM);
    unsigned sum = length;
    emit1(GET, I), emit(FETCH), emit1(BUILTIN, FOLD), emit2(PUSH, 3), emit(MUL), emit1(GET, SUM), emit(ADD), emit1(SET, SUM);
    emit1(GET, I), emit2(PUSH, 1), emit(ADD), emit1(SET, I), emit1(GET, I), emit2(PUSH, N), emit(LESS);
    unsigned end = emit2(UNLESS, 0);
    emit2(JUMP, sum), land(end), emit1(GET, SUM), emit(STOP);
    return start;
}

/* Fibonacci's numbers by calls of its own. */
static unsigned fibonacci(void)
{
    unsigned function = length;
    emit1(GET, 0), emit2(PUSH, 2), emit(LESS);
    unsigned large = emit2(UNLESS, 0);
    emit1(GET, 0), emit(RETURN), land(large);
    emit1(GET, 0), emit2(PUSH, 1), emit(SUB), emit2(CALL, function);
    emit1(GET, 0), emit2(PUSH, 2), emit(SUB), emit2(CALL, function), emit(ADD), emit(RETURN);
    unsigned start = length;
    emit2(PUSH, 14), emit2(CALL, function), emit2(PUSH, (unsigned)-1), emit(SHIFT), emit2(PUSH, 0xfff), emit(AND), emit(STOP);
    return start;
}

static volatile uint32_t ticks;

void TIMER_HANDLER(void) { ticks++; }

int main(void)
{
    static const struct { const char *name; unsigned (*write)(void); } programs[] = {
        { "sieve", sieve }, { "sort", sort }, { "fibonacci", fibonacci },
    };
    static int32_t (*const machines[])(const uint8_t *) = { run_by_goto, run_by_switch, run_by_tests };
    uint32_t sum = 0;
    timer_start(1000);
    for (unsigned program = 0; program < sizeof programs / sizeof *programs; program++) {
        unsigned start = programs[program].write();
        for (unsigned machine = 0; machine < sizeof machines / sizeof *machines; machine++) {
            random_state = 12345;
            for (int round = 0; round < 4 * REPEAT; round++)
                sum = mix(sum, (uint32_t)machines[machine](code + start));
        }
        print("%12s %08x\n", programs[program].name, (unsigned)sum);
    }
    timer_stop();
    print("code %u bytes\n", length);
    return ticks == 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
