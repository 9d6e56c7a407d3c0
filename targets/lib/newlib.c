/* What newlib wants of the system: memory, the console, and a way to end. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "board.h"

#ifndef HEAP_BYTES
#define HEAP_BYTES (256 * 1024)
#endif

void *_sbrk(ptrdiff_t more)
{
    static char heap[HEAP_BYTES] __attribute__((aligned(8)));
    static size_t used;
    if (used + (size_t)more > sizeof heap) {
        errno = ENOMEM;
        return (void *)-1;
    }
    void *old = heap + used;
    used += (size_t)more;
    return old;
}

int _write(int file, const char *bytes, int size)
{
    (void)file;
    for (int i = 0; i < size; i++)
        console_putc(bytes[i]);
    return size;
}

_Noreturn void _exit(int status) { board_exit(status); }

int _read(int file, char *bytes, int size) { return (void)file, (void)bytes, (void)size, 0; }
int _close(int file) { return (void)file, -1; }
int _lseek(int file, int offset, int whence) { return (void)file, (void)offset, (void)whence, 0; }
int _isatty(int file) { return (void)file, 1; }
int _fstat(int file, struct stat *status) { return (void)file, status->st_mode = S_IFCHR, 0; }
int _getpid(void) { return 1; }
int _kill(int process, int signal) { return (void)process, (void)signal, board_exit(1), -1; }

/* What is to be destroyed at the end is nobody's: there is no end. */
void *__dso_handle;
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
