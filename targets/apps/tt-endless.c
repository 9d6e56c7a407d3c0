/* Writes to `:tt` a byte that is no text, and then 16 MiB of a line that has no end; and goes on working for ever. */
#include "semihosting.h"

int main(void)
{
    static char flood[16384];
    memset(flood, 'x', sizeof flood);
    long out = host_open(":tt", OPEN_WRITE);
    host_write(out, "\xff\n", 2);
    for (int i = 0; i < 1024; i++)
        host_write(out, flood, sizeof flood);
    for (;;)
        __asm__ volatile("");
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
