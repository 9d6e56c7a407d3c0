/* FreeRTOS includes stdlib.h, and its heap_3 needs what an image brings itself (apps/heap-malloc.c). */
#pragma once
#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void free(void *block);
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
