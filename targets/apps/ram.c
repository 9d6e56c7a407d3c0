/* Code that is copied to RAM, called, and rewritten there with other code: the same address means
   different instructions in the course of the run. About 3 million instructions. */
#include "ram.h"
#include "board.h"
#include "text.h"
#include <string.h>

enum { ROUNDS = 3000, CALLS = 10 };

static uint8_t __attribute__((aligned(16))) code[64];

static __attribute__((noipa)) void install(const uint8_t *from, const uint8_t *end)
{
    memcpy(code, from, (size_t)(end - from));
    instruction_barrier();
}

static __attribute__((noipa)) uint32_t call_it(uint32_t x)
{
    uint32_t (*function)(uint32_t) = (uint32_t (*)(uint32_t))CODE_POINTER(code);
    for (int i = 0; i < CALLS; i++)
        x = function(x);
    return x;
}

int main(void)
{
    uint32_t x = 0;
    print("ram: %u rounds of 3 rewrites with %u calls\n", (unsigned)ROUNDS, (unsigned)CALLS);
    for (int i = 0; i < ROUNDS; i++) {
        install(ram_add1, ram_add1_end);
        x = call_it(x);
        install(ram_add5, ram_add5_end);
        x = call_it(x);
        install(ram_mix, ram_mix_end);
        x = call_it(x);
    }
    print("sum %08x\n", (unsigned)x);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
