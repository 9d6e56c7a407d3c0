/* For ci/bench: work of 2,000 instructions at a time, each in a zone: an event per 1,000 instructions. */
#include "board.h"
#include "text.h"
#include "work.h"
#include "zone.h"

enum { ROUNDS = 600000 };

static __attribute__((noipa)) uint32_t filter(uint32_t x, uint32_t turns)
{
    ZONE("filter");
    for (uint32_t i = 0; i < turns; i++)
        x = mix(x, i);
    return x;
}

int main(void)
{
    uint32_t x = 1;
    for (uint32_t i = 0; i < ROUNDS; i++)
        x = filter(x, 330);
    print("zones-long: %08x\n", (unsigned)x);
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
