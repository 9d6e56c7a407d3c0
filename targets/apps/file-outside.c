/* Reads a file of the host's, by an absolute path. What it holds is not printed. */
#include "semihosting.h"
#include "text.h"

int main(void)
{
    char text[64];
    print("file-outside: opening /etc/hostname\n");
    long file = host_open("/etc/hostname", OPEN_READ);
    if (file == -1) {
        print("refused\n");
    } else {
        print("opened, %s\n", host_read(file, text, sizeof text) < (long)sizeof text ? "read" : "not read");
        host_close(file);
    }
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
