/* Never ends, as most firmware: for the measuring window, limits, time-outs and Ctrl-C. */
#include "board.h"
#include "text.h"
#include "work.h"

static volatile uint32_t result;

static __attribute__((noipa)) uint32_t checksum(uint32_t round) { return crc32_bitwise(&round, sizeof round); }
static __attribute__((noipa)) uint32_t multiply(uint32_t round) { return matrix_unit(round); }
static __attribute__((noipa)) uint32_t recurse(uint32_t round) { return fib(8 + (round & 3)); }

static __attribute__((noipa)) void step(uint32_t round)
{
    result = mix(mix(checksum(round), multiply(round)), recurse(round));
}

int main(void)
{
    print("spin: working for ever\n");
    for (uint32_t round = 0;; round++)
        step(round);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
