/* For ci/bench: a million blocks that are allocated and freed, a thousand instructions for each, on ten paths. */
#include <stdint.h>

#include "text.h"

void *malloc(__SIZE_TYPE__ size);
void free(void *block);

#define NOIPA __attribute__((noipa))
enum { PAIRS = 1000000, WORK = 220 };

static NOIPA uint32_t work(uint32_t x)
{
    for (int i = 0; i < WORK; i++)
        x = (x ^ x << 5) + 0x9e3779b1u;
    return x;
}
static NOIPA uint32_t pair(uint32_t x)
{
    uint32_t *block = malloc(x % 200 + 4);
    *(volatile uint32_t *)block = x;
    x = work(x);
    x += *(volatile uint32_t *)block;
    free(block);
    return x;
}
static NOIPA uint32_t deeper(uint32_t depth, uint32_t x) { return depth ? deeper(depth - 1, x) + 1 : pair(x); }

int main(void)
{
    uint32_t x = 1;
    for (uint32_t i = 0; i < PAIRS; i++)
        x = deeper(i % 10, x);
    print("pairs: %x\n", (unsigned)x);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
