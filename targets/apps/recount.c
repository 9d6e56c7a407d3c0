/* mcount_reset() after the first of two phases: the table has only what came after it. */
#include "board.h"
#include "mcount.h"
#include "text.h"
#include "work.h"

static __attribute__((noipa)) uint32_t step(uint32_t x) { return rotate_left(x, 3) + 1; }

static __attribute__((noipa)) uint32_t phase(uint32_t x, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++)
        x = step(x);
    return x;
}

int main(void)
{
    uint32_t sum = phase(1, 3000);
#ifdef MCOUNT
    mcount_reset();
#endif
    sum = phase(sum, 2000);
    print("recount: sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
