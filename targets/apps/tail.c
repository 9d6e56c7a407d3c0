/* Functions that end in a jump to another one, by name and by pointer: what is entered that way returns to
   whoever called the first. */
#include "board.h"
#include "text.h"
#include "work.h"

enum { ROUNDS = 5000 };

static __attribute__((noipa)) uint32_t last(uint32_t x) { return rotate_left(x, 5) + 3; }
static __attribute__((noipa)) uint32_t other(uint32_t x) { return x * 9 + 1; }
static __attribute__((noipa)) uint32_t by_name(uint32_t x) { return last(x ^ 0x55); }
static __attribute__((noipa)) uint32_t twice(uint32_t x) { return by_name(x + 1); }
static __attribute__((noipa)) uint32_t by_pointer(uint32_t (*next)(uint32_t), uint32_t x) { return next(x + 7); }

int main(void)
{
    uint32_t sum = 1;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        sum = twice(sum);
        sum = by_pointer(i & 1 ? last : other, sum);
    }
    print("tail: sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
