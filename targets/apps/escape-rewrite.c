/* A semihosting call whose first marker is overwritten once QEMU has translated the `ebreak`: QEMU keeps what it has
   translated, and whoever looks when it executes sees no call. */
#include "semihosting.h"
#include "text.h"

enum { SYS_ERRNO = 0x13, NOP = 0x00000013 };

/* Not beside other code. */
extern volatile uint32_t marked[];
__asm__(".pushsection .data.marked, \"aw\"\n\t.balign 64\n\t.option push\n\t.option norvc\n"
        "marked:\tslli zero, zero, 0x1f\n\tebreak\n\tsrai zero, zero, 7\n\tret\n\t"
        ".option pop\n\t.size marked, . - marked\n\t.popsection");

int main(void)
{
    static const char path[] = "/etc/passwd";
    const uintptr_t file[3] = { (uintptr_t)path, OPEN_READ, sizeof path - 1 };
    long (*at_ebreak)(long, const void *) = (long (*)(long, const void *))(uintptr_t)(marked + 1);
    at_ebreak(SYS_ERRNO, 0);
    marked[0] = NOP;
    print("escape-rewrite: opening %s\n", path);
    print(at_ebreak(SYS_OPEN, file) == -1 ? "refused\n" : "opened\n");
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
