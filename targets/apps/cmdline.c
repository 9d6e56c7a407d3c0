/* Prints the command line that it was given, as a program with options does. */
#include "semihosting.h"
#include "text.h"

int main(void)
{
    static char line[96];
    uintptr_t block[2] = { (uintptr_t)line, sizeof line };
    if (semihost(SYS_GET_CMDLINE, block) != 0) {
        print("cmdline: refused\n");
        board_exit(1);
    }
    print("cmdline: %d bytes: [%s]\n", (int)block[1], line);
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
