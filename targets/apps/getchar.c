/* Reads standard input by the character and by the number, in a C library that asks for each byte (SYS_READC, which
   waits). It is busy first: what is typed meanwhile is there when it asks. */
#include <stdio.h>

int main(void)
{
    for (volatile int turns = 0; turns < 50000; turns++)
        continue;
    printf("getchar: ready\n");
    int first = getchar(), number = 0;
    char word[16] = "";
    int found = scanf("%d %15s", &number, word);
    printf("getchar: %c, then %d: %d %s\n", first, found, number, word);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
