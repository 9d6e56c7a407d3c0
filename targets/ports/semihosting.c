/* Leaving through semihosting, the same on every port: QEMU's exit status is the one given here. */
#include "board.h"

enum { SYS_EXIT_EXTENDED = 0x20, ADP_STOPPED_APPLICATION_EXIT = 0x20026 };

void board_exit(int status)
{
    const uintptr_t block[2] = { ADP_STOPPED_APPLICATION_EXIT, (uintptr_t)status };
    for (;;)
        semihost(SYS_EXIT_EXTENDED, block);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
