/* One malloc for two CPUs, under a lock: what one allocates the other frees, blocks grow on the other CPU, and some of
   both are never given back. Timers end the CPUs' turns, in the middle of malloc, too. What the table counted that all
   calls go through (heap-truth.c) is printed at the end, and how often one CPU waited for the other in the wrappers. */
#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "cpus.h"
#include "heap-truth.h"
#include "text.h"

#define NOIPA __attribute__((noipa))
enum { ROUNDS = 400, ROOM = 16, HZ = 5000 };

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void free(void *block);
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void __wrap_free(void *block);
void heap_line(const char *name, unsigned value);
void heap_line(const char *name, unsigned value) { print("%s: %u\n", name, value); }

static volatile uint32_t lock, met, go, answered, finished[2], leaked[2];

static void enter(void)
{
    if (take_lock(&lock))
        met++;
}

void *__wrap_malloc(size_t size)
{
    enter();
    void *block = __real_malloc(size);
    truth_in(block, size);
    release_lock(&lock);
    return block;
}
void *__wrap_calloc(size_t count, size_t size)
{
    enter();
    void *block = __real_calloc(count, size);
    truth_in(block, count * size);
    release_lock(&lock);
    return block;
}
void *__wrap_realloc(void *old, size_t size)
{
    enter();
    void *block = __real_realloc(old, size);
    if (block || size == 0)
        truth_out(old);
    truth_in(block, size);
    release_lock(&lock);
    return block;
}
void __wrap_free(void *block)
{
    enter();
    truth_out(block);
    __real_free(block);
    release_lock(&lock);
}

/* What CPU n has put there for the other one. */
static struct { void *volatile block[ROOM]; volatile uint32_t put, taken; } boxes[2];

static NOIPA void give(unsigned cpu, void *block)
{
    boxes[cpu].block[boxes[cpu].put % ROOM] = block;
    __atomic_store_n(&boxes[cpu].put, boxes[cpu].put + 1, __ATOMIC_RELEASE);
}

static NOIPA void *take(unsigned other)
{
    if (__atomic_load_n(&boxes[other].put, __ATOMIC_ACQUIRE) == boxes[other].taken)
        return 0;
    void *block = boxes[other].block[boxes[other].taken % ROOM];
    __atomic_store_n(&boxes[other].taken, boxes[other].taken + 1, __ATOMIC_RELEASE);
    return block;
}

static NOIPA void dispose(void *block, uint32_t x)
{
    if (x & 1)
        block = realloc(block, x % 90 + 1);
    free(block);
}

static NOIPA void temporary(uint32_t x) { free(malloc(x % 200 + 1)); }
static NOIPA void loses(unsigned cpu, uint32_t x)
{
    if (calloc(x % 5 + 1, 3))
        leaked[cpu]++;
}
static NOIPA void too_much(void) { free(malloc((size_t)1 << 28)); }

void TIMER_HANDLER(void) {}

static NOIPA void work_of(unsigned cpu)
{
    uint32_t x = 2463534242u + cpu;
    if (cpu == 0 || sizeof(void *) == 4)
        timer_start(cpu ? 2 * HZ : HZ);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        /* While its box is full each CPU goes on emptying the other one's. */
        do {
            void *block;
            while ((block = take(!cpu)))
                dispose(block, x >> 7);
        } while (boxes[cpu].put - boxes[cpu].taken == ROOM);
        give(cpu, x & 4 ? malloc(x % 120 + 1) : calloc(x % 9 + 1, x % 13 + 1));
        temporary(x >> 3);
        if (round % 32 == 9) {
            loses(cpu, x);
            too_much();
        }
    }
    timer_stop();
}

/* What the other one still has to give, while it gives. */
static NOIPA void rest_of(unsigned cpu)
{
    __atomic_store_n(&finished[cpu], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&finished[!cpu], __ATOMIC_ACQUIRE) || boxes[!cpu].put != boxes[!cpu].taken)
        free(take(!cpu));
}

void secondary_main(uintptr_t cpu)
{
    if (cpu != 1)
        return;
    while (!go)
        ;
    work_of(1);
    rest_of(1);
    __atomic_store_n(&answered, 1, __ATOMIC_RELEASE);
}

int main(void)
{
    start_other_cpu();
    go = 1;
    work_of(0);
    rest_of(0);
    while (!answered)
        ;
    truth_print();
    heap_line("met", met);
    heap_line("leaked by 0", leaked[0]);
    heap_line("leaked by 1", leaked[1]);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
