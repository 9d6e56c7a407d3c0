/* Calls under Thumb's conditions: see it-arm.S, whose counts are known by arithmetic. */
#include "it.h"
#include "board.h"
#include "text.h"
#include "work.h"

uint32_t it_rounds(uint32_t rounds);

#define CALLED(name) \
    static uint32_t name##_calls; \
    __attribute__((noipa)) uint32_t name(uint32_t x) { name##_calls++; return rotate_left(x, 3) + 1; }
CALLED(it_even) CALLED(it_odd) CALLED(it_third) CALLED(it_far) CALLED(it_case0) CALLED(it_case1) CALLED(it_case2) CALLED(it_case3)

int main(void)
{
    uint32_t sum = it_rounds(IT_ROUNDS);
    int wrong = it_even_calls != IT_ROUNDS / 2 || it_odd_calls != IT_ROUNDS / 2 || it_third_calls != IT_ROUNDS / 4 ||
        it_far_calls != IT_ROUNDS || it_case0_calls != IT_ROUNDS / 4 || it_case1_calls != IT_ROUNDS / 4 ||
        it_case2_calls != IT_ROUNDS / 4 || it_case3_calls != IT_ROUNDS / 4;
    print("it: sum %08x%s\n", (unsigned)sum, wrong ? ", WRONG" : "");
    return wrong;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
