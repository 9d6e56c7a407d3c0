/* Functions that check their argument, and save no return address before the call that never returns, as LLVM compiles checks of
   bounds. The callers have to be on the stack of what that call does. */
#include <stdint.h>

#include "board.h"
#include "text.h"

uint32_t checked(uint32_t index);
uint32_t checked_middle(uint32_t index);
uint32_t checked_inner(uint32_t index);
__attribute__((noreturn)) void fail(uint32_t depth);

static volatile uint32_t sum;

static __attribute__((noinline)) uint32_t work(uint32_t turns)
{
    for (uint32_t turn = 0; turn < turns; turn++)
        sum += turn ^ sum >> 3;
    return sum;
}

__attribute__((noinline)) void fail(uint32_t index)
{
    work(500);
    if (index == 9)
        checked_middle(10);
    if (index == 10)
        checked_inner(11);
    work(700);
    print("forgets: failed as it should\n");
    board_exit(0);
}

int main(void)
{
    for (uint32_t turn = 0; turn < 300; turn++)
        sum += checked(turn & 7) + checked_middle(turn & 7) + checked_inner(turn & 7);
    checked(9);
    board_exit(1);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
