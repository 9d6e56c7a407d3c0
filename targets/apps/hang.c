/* Ends where much firmware ends: in a function that is one jump to itself. It is called once. */
#include "board.h"
#include "text.h"

static __attribute__((noipa)) void hang(void)
{
    for (;;)
        __asm__ volatile("");
}

int main(void)
{
    print("hang: for ever\n");
    hang();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
