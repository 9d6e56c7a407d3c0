/* Opens a file until the host has no descriptor left, keeps all of them, and writes 64 MiB. */
#include "semihosting.h"
#include "text.h"

enum { MANY = 1 << 16, BLOCKS = 4096 };

int main(void)
{
    static char block[16384];
    unsigned held = 0;
    long file = -1;
    for (long next; held < MANY && (next = host_open("held", OPEN_APPEND)) != -1; held++)
        file = next;
    print("descriptors: %s\n", held < MANY ? "none left" : "there is no end of them");
    for (int i = 0; i < BLOCKS; i++)
        host_write(file, block, sizeof block);
    print("written\n");
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
