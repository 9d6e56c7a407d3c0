/* The few functions of string.h that gcc and FreeRTOS call. */
#include <string.h>

void *memcpy(void *to, const void *from, size_t size)
{
    char *t = to;
    for (const char *f = from; size--;)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t size)
{
    char *t = to;
    const char *f = from;
    if (t <= f)
        return memcpy(to, from, size);
    while (size--)
        t[size] = f[size];
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    for (char *t = to; size--;)
        *t++ = (char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
    const unsigned char *x = a, *y = b;
    for (; size--; x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

size_t strlen(const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    return n;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
