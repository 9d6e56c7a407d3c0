/* Ends with status 3: the firmware says that it failed. */
#include "board.h"
#include "text.h"

int main(void)
{
    print("exit3: leaving with status 3\n");
    board_exit(3);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
