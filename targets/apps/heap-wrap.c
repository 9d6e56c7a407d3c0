/* Where the linker leads the calls of a C library's allocation functions: they are called, and written down. */
#include "heap-truth.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_memalign(size_t align, size_t size);
int __real_posix_memalign(void **place, size_t align, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_memalign(size_t align, size_t size);
int __wrap_posix_memalign(void **place, size_t align, size_t size);
void __wrap_free(void *block);

/* Only the outermost of calls that call each other counts. */
static int depth;

void *__wrap_malloc(size_t size)
{
    depth++;
    void *block = __real_malloc(size);
    if (--depth == 0)
        truth_in(block, size);
    return block;
}
void *__wrap_calloc(size_t count, size_t size)
{
    depth++;
    void *block = __real_calloc(count, size);
    if (--depth == 0)
        truth_in(block, count * size);
    return block;
}
void *__wrap_realloc(void *old, size_t size)
{
    depth++;
    void *block = __real_realloc(old, size);
    if (--depth == 0) {
        if (block || size == 0)
            truth_out(old);
        truth_in(block, size);
    }
    return block;
}
void *__wrap_memalign(size_t align, size_t size)
{
    depth++;
    void *block = __real_memalign(align, size);
    if (--depth == 0)
        truth_in(block, size);
    return block;
}
int __wrap_posix_memalign(void **place, size_t align, size_t size)
{
    depth++;
    int status = __real_posix_memalign(place, align, size);
    if (--depth == 0)
        truth_in(status ? 0 : *place, size);
    return status;
}
void __wrap_free(void *block)
{
    if (depth++ == 0)
        truth_out(block);
    __real_free(block);
    depth--;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
