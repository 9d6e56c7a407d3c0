/* Without an operating system: every kind of work and of call once, with a timer interrupt at 1 kHz.
   The last line is the same on every machine; the count of ticks is not. */
#include "board.h"
#include "text.h"
#include "work.h"

static volatile uint32_t ticks, tick_sum;

static __attribute__((noinline)) void on_tick(uint32_t n) { tick_sum = mix(tick_sum, n); }

void TIMER_HANDLER(void)
{
    ticks++;
    on_tick(ticks);
}

static int32_t values[256];

static uint32_t crc(uint32_t seed)
{
    fill(values, 256, seed);
    return crc32_bitwise(values, sizeof values) ^ crc32_table(values, 256);
}

static uint32_t sort(uint32_t seed)
{
    fill(values, 256, seed);
    (seed & 1 ? quick_sort : heap_sort)(values, 256); /* a call through a pointer */
    return is_sorted(values, 256) ? crc32_table(values, sizeof values) : 0;
}

/* The head of this loop is the function's first instruction. */
static __attribute__((noipa)) uint32_t fold(uint32_t x)
{
    do
        x >>= 3;
    while (x & 1);
    return x;
}

static __attribute__((noipa)) uint32_t gcd(uint32_t a, uint32_t b)
{
    while (a != b) {
        if (a > b)
            a -= b;
        else
            b -= a;
    }
    return a;
}

/* Two functions that end in a jump to another function. */
static __attribute__((noipa)) uint32_t finish(uint32_t sum) { return rotate_left(sum, 7) + 1; }
static __attribute__((noipa)) uint32_t tail_by_name(uint32_t sum) { return finish(sum ^ 0x55aa); }
static __attribute__((noipa)) uint32_t tail_by_pointer(uint32_t (*next)(uint32_t), uint32_t sum) { return next(sum + 3); }

static uint32_t calls(uint32_t seed)
{
    uint32_t sum = gcd(1071 + seed * 7, 462) + fold(0x0fffffff + seed);
    sum = tail_by_name(sum);
    return tail_by_pointer(seed & 1 ? finish : tail_by_name, sum);
}

static uint32_t recursion(uint32_t seed) { return fib(10 + (seed & 3)) + ackermann(2, 3 + (seed & 7)) + tree_unit(seed, 48); }
static uint32_t formatting(uint32_t seed) { return format_unit(seed, 8); }

static const struct { const char *name; uint32_t (*unit)(uint32_t seed); } work[] = {
    { "crc", crc }, { "matrix", matrix_unit }, { "float", matrix_float_unit }, { "sort", sort },
    { "calls", calls }, { "recursion", recursion }, { "formatting", formatting },
};

#ifdef SHORT
#define HOW_MANY 12
#else
#define HOW_MANY 48
#endif
enum { ROUNDS = HOW_MANY, KINDS = sizeof work / sizeof work[0] };

int main(void)
{
    uint32_t all = 0;
    print("bare: %u kinds of work, %u rounds\n", (unsigned)KINDS, (unsigned)ROUNDS);
    timer_start(1000);
    for (int kind = 0; kind < KINDS; kind++) {
        uint32_t sum = 0;
        for (uint32_t round = 1; round <= ROUNDS; round++)
            sum = mix(sum, work[kind].unit(round));
        print("%12s %08x\n", work[kind].name, (unsigned)sum);
        all = mix(all, sum);
    }
    timer_stop();
    print("ticks %u\n", (unsigned)ticks);
    print("result %08x\n", (unsigned)all);
    return ticks == 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
