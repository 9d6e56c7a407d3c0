/* A small snprintf, and printing to the board's console. */
#include "text.h"
#include <string.h>
#include "board.h"

struct sink { char *to; size_t size, length; };

static inline void put(struct sink *sink, char c)
{
    if (sink->length + 1 < sink->size)
        sink->to[sink->length] = c;
    sink->length++;
}

static inline char digit(unsigned value) { return (char)(value < 10 ? '0' + value : 'a' + value - 10); }

static void put_number(struct sink *sink, unsigned value, unsigned base, int negative, int width, char pad)
{
    char digits[12];
    int n = 0;
    do
        digits[n++] = digit(value % base);
    while (value /= base);
    if (negative)
        digits[n++] = '-';
    for (; width > n; width--)
        put(sink, pad);
    while (n)
        put(sink, digits[--n]);
}

int vformat(char *to, size_t size, const char *fmt, va_list args)
{
    struct sink sink = { to, size, 0 };
    for (; *fmt; fmt++) {
        if (*fmt != '%') {
            put(&sink, *fmt);
            continue;
        }
        char pad = ' ';
        int width = 0;
        if (*++fmt == '0')
            pad = *fmt++;
        for (; *fmt >= '0' && *fmt <= '9'; fmt++)
            width = width * 10 + (*fmt - '0');
        switch (*fmt) {
        case 's': {
            const char *s = va_arg(args, const char *);
            for (int length = (int)strlen(s); width > length; width--)
                put(&sink, ' ');
            while (*s)
                put(&sink, *s++);
            break;
        }
        case 'c':
            put(&sink, (char)va_arg(args, int));
            break;
        case 'd': {
            int value = va_arg(args, int);
            put_number(&sink, value < 0 ? 0u - (unsigned)value : (unsigned)value, 10, value < 0, width, pad);
            break;
        }
        case 'u':
            put_number(&sink, va_arg(args, unsigned), 10, 0, width, pad);
            break;
        case 'x':
            put_number(&sink, va_arg(args, unsigned), 16, 0, width, pad);
            break;
        default:
            put(&sink, *fmt);
        }
    }
    if (size)
        to[sink.length < size ? sink.length : size - 1] = 0;
    return (int)sink.length;
}

int format(char *to, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vformat(to, size, fmt, args);
    va_end(args);
    return length;
}

void print(const char *fmt, ...)
{
    char line[160];
    va_list args;
    va_start(args, fmt);
    vformat(line, sizeof line, fmt, args);
    va_end(args);
    for (const char *s = line; *s; s++)
        console_putc(*s);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
