/* Writes a file into its own directory and exits with status 3, all from virtual addresses. */
#include "semihosting.h"
#include "text.h"
#include "virtual.h"

static void supervisor(void)
{
    const uintptr_t block[2] = { 0x20026, 3 };
    long file = host_open("out.txt", OPEN_WRITE);
    print("virtual-exit: left to write: %u\n", (unsigned)host_write(file, "text", 4));
    semihost(0x18, block);
}

int main(void)
{
    go_virtual(supervisor);
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
