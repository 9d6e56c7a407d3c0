/* The real work that the applications do. Results depend on the arguments alone, on every machine. */
#pragma once
#include <stddef.h>
#include <stdint.h>

static inline uint32_t rotate_left(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }

static inline void swap(int32_t *a, int32_t *b)
{
    int32_t t = *a;
    *a = *b;
    *b = t;
}

/* Marsaglia's xorshift: the applications' only source of "random" numbers. */
static inline uint32_t xorshift(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

/* Folds one result into a checksum. */
static inline uint32_t mix(uint32_t sum, uint32_t value) { return rotate_left(sum ^ value, 5) * 0x9e3779b1u; }

uint32_t crc32_bitwise(const void *data, size_t size);
uint32_t crc32_table(const void *data, size_t size);

/* c = a * b, n x n. */
void matrix_multiply(int32_t *c, const int32_t *a, const int32_t *b, int n);
void matrix_multiply_float(float *c, const float *a, const float *b, int n);
/* One unit of work each: fills its matrices from `seed`, multiplies, returns a checksum. */
uint32_t matrix_unit(uint32_t seed);
uint32_t matrix_float_unit(uint32_t seed);

void fill(int32_t *values, int n, uint32_t seed);
void quick_sort(int32_t *values, int n);
void heap_sort(int32_t *values, int n);
int is_sorted(const int32_t *values, int n);

uint32_t fib(uint32_t n);
uint32_t ackermann(uint32_t m, uint32_t n);
/* Builds a binary tree of `n` keys in a fixed pool (64 at most) and sums it recursively. */
uint32_t tree_unit(uint32_t seed, int n);

/* Formats `lines` lines of text and returns the CRC over them. */
uint32_t format_unit(uint32_t seed, int lines);
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
