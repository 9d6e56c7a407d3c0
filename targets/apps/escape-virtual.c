/* Opens a file from code and with a path at virtual addresses, where there is no memory by their numbers. */
#include "semihosting.h"
#include "text.h"
#include "virtual.h"

static void supervisor(void)
{
    print("escape-virtual: opening /etc/passwd\n");
    print(host_open("/etc/passwd", OPEN_READ) == -1 ? "refused\n" : "opened\n");
    board_exit(0);
}

int main(void)
{
    go_virtual(supervisor);
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
