/* Formatted text, a small part of printf: %s %c %d %u %x %%, a width and a leading 0 with it. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
/* Returns the length that the text would have had; always ends `to` with a NUL if size > 0. */
int format(char *to, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int vformat(char *to, size_t size, const char *fmt, va_list args);
/* To the console; at most 159 characters. */
void print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#ifdef __cplusplus
}
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
