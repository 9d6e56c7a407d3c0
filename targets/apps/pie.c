/* Static PIE: pointers in initialised data only work after start-up has relocated them. */
#include "board.h"
#include "text.h"
#include "work.h"

static uint32_t by_crc(uint32_t seed) { return crc32_bitwise(&seed, sizeof seed); }
static uint32_t by_tree(uint32_t seed) { return tree_unit(seed, 64); }

static const struct { const char *name; uint32_t (*unit)(uint32_t); } work[] = {
    { "crc", by_crc }, { "matrix", matrix_unit }, { "tree", by_tree }, { "fib", fib },
};

int main(void)
{
    print("pie: main at %08x\n", (unsigned)(uintptr_t)main);
    for (unsigned i = 0; i < sizeof work / sizeof work[0]; i++) {
        uint32_t sum = 0;
        for (uint32_t round = 1; round <= 18; round++)
            sum = mix(sum, work[i].unit(round));
        print("%8s %08x\n", work[i].name, (unsigned)sum);
    }
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
