/* Semihosting operations that reach for the host. */
#pragma once
#include "board.h"
#include <string.h>

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_CLOCK = 0x10, SYS_TIME = 0x11, SYS_SYSTEM = 0x12, SYS_GET_CMDLINE = 0x15, SYS_ELAPSED = 0x30 };
enum { OPEN_READ = 0, OPEN_WRITE = 4, OPEN_APPEND = 8 };

static inline long host_open(const char *path, int mode)
{
    const uintptr_t block[3] = { (uintptr_t)path, (uintptr_t)mode, strlen(path) };
    return semihost(SYS_OPEN, block);
}

/* Both return how many bytes were NOT transferred. */
static inline long host_write(long file, const void *data, size_t size)
{
    const uintptr_t block[3] = { (uintptr_t)file, (uintptr_t)data, size };
    return semihost(SYS_WRITE, block);
}

static inline long host_read(long file, void *data, size_t size)
{
    const uintptr_t block[3] = { (uintptr_t)file, (uintptr_t)data, size };
    return semihost(SYS_READ, block);
}

static inline long host_close(long file)
{
    const uintptr_t block[1] = { (uintptr_t)file };
    return semihost(SYS_CLOSE, block);
}

static inline long host_system(const char *command)
{
    const uintptr_t block[2] = { (uintptr_t)command, strlen(command) };
    return semihost(SYS_SYSTEM, block);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
