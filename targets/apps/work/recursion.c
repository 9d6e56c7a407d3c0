/* Recursion: Fibonacci, Ackermann, and a walk through a binary tree. */
#include "work.h"

__attribute__((optimize("no-optimize-sibling-calls", "no-inline"))) uint32_t fib(uint32_t n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

uint32_t ackermann(uint32_t m, uint32_t n)
{
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

struct node { struct node *left, *right; uint32_t key; };

static __attribute__((noinline)) struct node *insert(struct node *tree, struct node *node)
{
    if (!tree)
        return node;
    if (node->key < tree->key)
        tree->left = insert(tree->left, node);
    else
        tree->right = insert(tree->right, node);
    return tree;
}

static __attribute__((noinline)) uint32_t sum(const struct node *tree, uint32_t depth)
{
    return tree ? mix(sum(tree->left, depth + 1), tree->key + depth) + sum(tree->right, depth + 1) : depth;
}

uint32_t tree_unit(uint32_t seed, int n)
{
    static struct node pool[64];
    struct node *tree = 0;
    seed |= 1;
    for (int i = 0; i < n && i < 64; i++) {
        pool[i] = (struct node){ 0, 0, xorshift(&seed) };
        tree = insert(tree, &pool[i]);
    }
    return sum(tree, 0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
