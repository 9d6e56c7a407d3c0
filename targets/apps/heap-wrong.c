/* What goes wrong with a heap, each a known number of times: blocks freed twice, from two places; what never was one;
   allocators that are left by a longjmp, in which others went on; a pool that nothing frees into. */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"

void *malloc(size_t size);
void free(void *block);
void *realloc(void *block, size_t size);

#define NOIPA __attribute__((noipa))
static void *volatile last;
static jmp_buf out;
static int local;

/* No tail calls: their callers are to be seen. */
static volatile int done;
static NOIPA void frees(void *block)
{
    free(block);
    done++;
}
static NOIPA void frees_again(void *block)
{
    free(block);
    done++;
}
static NOIPA void twice(void)
{
    void *block = malloc(33);
    frees(block);
    frees_again(block);
    done++;
}
static NOIPA void never(void)
{
    frees(&local);
    done++;
}
static NOIPA void moves_what_is_gone(void)
{
    void *block = malloc(44);
    frees(block);
    last = realloc(block, 4);
}

/* Takes from malloc what it has none of, and gives up by a jump. */
NOIPA void *pool_get(size_t size);
NOIPA void *pool_get(size_t size)
{
    last = malloc(size + 8);
    longjmp(out, 1);
}
static NOIPA void gives_up(void)
{
    if (!setjmp(out))
        pool_get(100);
    free(last);
}
static NOIPA void goes_on(void)
{
    void *volatile block = malloc(10);
    free(block);
}

int main(void)
{
    for (int i = 0; i < 3; i++)
        twice();
    never();
    for (int i = 0; i < 5; i++)
        gives_up();
    for (int i = 0; i < 7; i++)
        goes_on();
    moves_what_is_gone();
    print("wrong: 3 double frees, 1 of what never was, 5 pools left, 1 block moved that was gone\n");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
