/* Leaves its directory by a path that looks harmless for longer than anyone may want to read. */
#include "semihosting.h"
#include "text.h"

enum { DOTS = 150 };

int main(void)
{
    static char path[2 * DOTS + 64];
    char *end = path;
    for (int i = 0; i < DOTS; i++) {
        *end++ = '.';
        *end++ = '/';
    }
    for (const char *rest = "../../../../../../etc/hostname"; (*end = *rest++); end++)
        ;
    print("file-detour: opening a path of %u bytes\n", (unsigned)(end - path));
    print(host_open(path, OPEN_READ) == -1 ? "refused\n" : "opened\n");
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
