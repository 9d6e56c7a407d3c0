/* A function that needs high registers. gcc 12 saves those by way of lr on a Cortex-M0, and reports as its
   caller what was in one of them: the other images for this processor are built with -ffixed-r8 to -ffixed-r11. */
#include "board.h"
#include "text.h"
#include "work.h"

static __attribute__((noipa)) uint32_t leaf(uint32_t x) { return rotate_left(x, 3) + 1; }

/* Nine values that live across calls. */
static __attribute__((noipa)) uint32_t many(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    uint32_t e = leaf(a), f = leaf(b), g = leaf(c), h = leaf(d), i = leaf(e);
    return mix(mix(mix(a, b), mix(c, d)), mix(mix(e, f), mix(g, mix(h, leaf(i)))));
}

int main(void)
{
    uint32_t sum = 1;
    for (uint32_t i = 0; i < 1000; i++)
        sum = many(i, sum, 3, 4);
    print("wrongcaller: sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
