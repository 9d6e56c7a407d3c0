/* Asks for the time by all of semihosting's clocks, and works until one of them has moved: how long that takes is what
   a host's clock would change. */
#include "semihosting.h"
#include "text.h"

static volatile long kept;

int main(void)
{
    uint64_t elapsed;
    print("clock: SYS_CLOCK, SYS_TIME and SYS_ELAPSED\n");
    kept = semihost(SYS_TIME, 0);
    kept = semihost(SYS_ELAPSED, &elapsed);
    long begin = semihost(SYS_CLOCK, 0);
    while (semihost(SYS_CLOCK, 0) == begin)
        kept++;
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
