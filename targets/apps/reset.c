/* Resets the machine (SYSRESETREQ, or 0x7777 to the test finisher); with -no-reboot QEMU ends there. */
#include "board.h"
#include "text.h"

int main(void)
{
    print("reset: asking for a reset\n");
    board_reset();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
