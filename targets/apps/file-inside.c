/* Writes a file into the working directory, as a firmware that keeps a log through semihosting does. */
#include "semihosting.h"
#include "text.h"

int main(void)
{
    static const char text[] = "written by the firmware\n";
    print("file-inside: writing out.txt\n");
    long file = host_open("out.txt", OPEN_WRITE);
    if (file == -1) {
        print("refused\n");
        board_exit(1);
    }
    print("left to write: %d\n", (int)host_write(file, text, sizeof text - 1));
    host_close(file);
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
