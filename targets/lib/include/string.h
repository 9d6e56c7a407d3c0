/* What FreeRTOS and the applications need of string.h; there is no C library. */
#pragma once
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
size_t strlen(const char *s);
#ifdef __cplusplus
}
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
