/* A malloc of one list, first fit, whose functions call each other as real ones do: calloc is a tail call of malloc's
   work, realloc moves by malloc and free. */
#include <stddef.h>
#include <stdint.h>

void *malloc(size_t size);
void free(void *block);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void *memalign(size_t align, size_t size);
int posix_memalign(void **place, size_t align, size_t size);
void *memset(void *to, int value, size_t size);
void *memcpy(void *to, const void *from, size_t size);

enum { ARENA = 40 * 1024, UNIT = 16 };
struct node { struct node *next; size_t size; };
static union { struct node first; char bytes[ARENA]; } arena __attribute__((aligned(UNIT)));
/* In place of the next one, in a block that is given out. */
#define TAKEN ((struct node *)1)
static struct node *unused;
static int is_ready;

static size_t units(size_t size) { return (size + sizeof(struct node) + UNIT - 1) & ~(size_t)(UNIT - 1); }

__attribute__((noipa)) static void *take(size_t size)
{
    if (!is_ready) {
        unused = &arena.first;
        unused->size = ARENA;
        is_ready = 1;
    }
    if (size > ARENA)
        return 0;
    size_t wanted = units(size);
    for (struct node **at = &unused; *at; at = &(*at)->next) {
        struct node *node = *at;
        if (node->size < wanted)
            continue;
        if (node->size - wanted >= 2 * UNIT) {
            struct node *rest = (struct node *)((char *)node + wanted);
            rest->next = node->next;
            rest->size = node->size - wanted;
            *at = rest;
            node->size = wanted;
        } else {
            *at = node->next;
        }
        node->next = TAKEN;
        return node + 1;
    }
    return 0;
}

__attribute__((noipa)) void *malloc(size_t size) { return take(size); }

__attribute__((noipa)) void free(void *block)
{
    if (!block)
        return;
    struct node *node = (struct node *)block - 1, **at = &unused;
    /* It was given back, or never given out. */
    if (node->next != TAKEN)
        return;
    while (*at && *at < node)
        at = &(*at)->next;
    node->next = *at;
    *at = node;
    if (node->next && (char *)node + node->size == (char *)node->next) {
        node->size += node->next->size;
        node->next = node->next->next;
    }
    if (at != &unused) {
        struct node *before = (struct node *)((char *)at - offsetof(struct node, next));
        if ((char *)before + before->size == (char *)node) {
            before->size += node->size;
            before->next = node->next;
        }
    }
}

__attribute__((noipa)) static void *cleared(void *block, size_t size) { return block ? memset(block, 0, size) : block; }
__attribute__((noipa)) void *calloc(size_t count, size_t size) { return cleared(malloc(count * size), count * size); }

__attribute__((noipa)) void *realloc(void *block, size_t size)
{
    if (!block)
        return malloc(size);
    if (size == 0) {
        free(block);
        return 0;
    }
    size_t there = ((struct node *)block - 1)->size - sizeof(struct node);
    if (size <= there)
        return block;
    void *moved = malloc(size);
    if (moved) {
        memcpy(moved, block, there);
        free(block);
    }
    return moved;
}

/* Everything is aligned to as much as is asked for here. */
__attribute__((noipa)) void *memalign(size_t align, size_t size) { return align <= UNIT ? malloc(size) : 0; }
__attribute__((noipa)) int posix_memalign(void **place, size_t align, size_t size)
{
    void *block = memalign(align, size);
    if (!block)
        return 12;
    *place = block;
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
