/* A C library that has its files from the debugger (newlib's rdimon, picolibc's semihost): standard output and error,
   standard input, arguments, a file, the clocks. picolibc reads standard input from the console, by SYS_READC, which waits;
   newlib from `:tt`, which ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void files(void)
{
    char line[40] = "";
    FILE *file = fopen("notes.txt", "w");
    if (!file || fprintf(file, "one %d\ntwo %s\n", 1, "2") < 0 || fclose(file) != 0)
        printf("hosted: no file can be written\n");
    file = fopen("notes.txt", "r");
    while (file && fgets(line, sizeof line, file))
        printf("hosted: the file has %s", line);
    if (file)
        fclose(file);
    remove("notes.txt");
    printf("hosted: afterwards there is %s\n", fopen("notes.txt", "r") ? "a file" : "none");
}

/* Works until the clock has moved twice: how long that takes is what a host's clock would change. */
static void until_later(void)
{
    for (int i = 0; i < 2; i++) {
        clock_t begin = clock();
        while (clock() == begin)
            continue;
    }
}

int main(int argc, char **argv)
{
    printf("hosted: %s, pi is %.4f\n", "printf", 3.14159265);
    fprintf(stderr, "hosted: standard error\n");
    for (int i = 0; i < argc; i++)
        printf("hosted: argument %d is %s\n", i, argv[i]);
    files();
#ifndef WITHOUT_INPUT
    int number = 0;
    char word[16] = "";
    int found = scanf("%d %15s", &number, word);
    if (found > 0)
        printf("hosted: read %d: %d %s\n", found, number, word);
    else
        printf("hosted: nothing to read\n");
#endif
    time_t now = time(NULL);
    printf("hosted: the time is %ld\n", (long)now);
    until_later();
    fprintf(stderr, "hosted: done\n");
    return 7;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
