/* Asks the host to run a command. A sandbox must refuse, and say so. */
#include "semihosting.h"
#include "text.h"

int main(void)
{
    print("system: touch pwned\n");
    print("SYS_SYSTEM returned %x\n", (unsigned)host_system("touch pwned"));
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
