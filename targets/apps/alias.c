/* Aliasing: see alias.h for the arithmetic. About 30 million instructions. */
#include "alias.h"
#include "board.h"
#include "text.h"

void alias_rounds(uintptr_t rounds);

int main(void)
{
    print("alias: %d rounds of 10007 instructions\n", ALIAS_ROUNDS);
    alias_rounds(ALIAS_ROUNDS);
    print("alias: done\n");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
