/* The C library's malloc and all of its family: blocks that live long and short, grow and move, are never given back;
   more than there is; what is NULL and of no size. What it counted itself is printed at the end. */
#include <stdint.h>
#include <stdlib.h>

#include "heap-truth.h"

#ifdef HOSTED
#include <malloc.h>
#include <stdio.h>
void heap_line(const char *name, unsigned value) { printf("%s: %u\n", name, value); }
#else
#include "text.h"
void *memalign(size_t align, size_t size);
int posix_memalign(void **place, size_t align, size_t size);
void heap_line(const char *name, unsigned value) { print("%s: %u\n", name, value); }
#endif
void heap_line(const char *name, unsigned value);

#define NOIPA __attribute__((noipa))
enum { ROUNDS = 60, KEPT = 24 };
static void *kept[KEPT];

static uint32_t xor_shift(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

static NOIPA void temporary(uint32_t x)
{
    void *block = malloc(x % 200 + 1);
    free(block);
}
static NOIPA void mixed(uint32_t x)
{
    void **slot = &kept[x % KEPT];
    free(*slot);
    switch (x >> 8 & 3) {
    case 0: *slot = malloc(x % 300); break;
    case 1: *slot = calloc(x % 9 + 1, x % 31 + 1); break;
    case 2: *slot = memalign(8, x % 100 + 1); break;
    default: *slot = 0; break;
    }
}
static NOIPA void grows(uint32_t x)
{
    char *text = 0;
    for (uint32_t size = 1; size < x % 400 + 2; size = size * 2 + 3) {
        char *more = realloc(text, size);
        if (!more)
            break;
        text = more;
    }
    free(realloc(text, 8));
}
static NOIPA void too_much(void)
{
    void *place = 0;
    char *small = malloc(10);
    char *same = realloc(small, (size_t)1 << 27);
    free(same ? same : small);
    free(malloc((size_t)1 << 28));
    if (posix_memalign(&place, 8, (size_t)1 << 28) == 0)
        free(place);
    if (posix_memalign(&place, 8, 40) == 0)
        free(place);
}
static NOIPA void leaks(uint32_t x)
{
    char *volatile lost = malloc(x % 50 + 1);
    lost[0] = 1;
    free(0);
}

int main(void)
{
    uint32_t x = 2463534242u;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        temporary(xor_shift(&x));
        for (int i = 0; i < 4; i++)
            mixed(xor_shift(&x));
        grows(xor_shift(&x));
        if (round % 16 == 7) {
            too_much();
            leaks(x);
        }
    }
    free(realloc(malloc(20), 0));
    truth_print();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
