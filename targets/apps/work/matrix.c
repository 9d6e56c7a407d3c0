/* Matrix multiplication, of integers and of floats (FPU or soft-float: the same bits). */
#include "work.h"

enum { N = 12 };

static inline int32_t dot(const int32_t *row, const int32_t *column, int n)
{
    uint32_t sum = 0;
    for (int k = 0; k < n; k++)
        sum += (uint32_t)row[k] * (uint32_t)column[k * n];
    return (int32_t)sum;
}

void matrix_multiply(int32_t *c, const int32_t *a, const int32_t *b, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            c[i * n + j] = dot(a + i * n, b + j, n);
}

void matrix_multiply_float(float *c, const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

uint32_t matrix_unit(uint32_t seed)
{
    static int32_t a[N * N], b[N * N], c[N * N];
    fill(a, N * N, seed);
    fill(b, N * N, seed + 1);
    matrix_multiply(c, a, b, N);
    matrix_multiply(a, c, b, N);
    return crc32_table(a, sizeof a);
}

uint32_t matrix_float_unit(uint32_t seed)
{
    static float a[N * N], b[N * N], c[N * N];
    uint32_t sum = 0;
    for (int i = 0; i < N * N; i++) {
        a[i] = (float)(xorshift(&seed) & 0xff) * 0.25f;
        b[i] = (float)(xorshift(&seed) & 0xff) * 0.125f;
    }
    matrix_multiply_float(c, a, b, N);
    for (int i = 0; i < N * N; i++)
        sum = mix(sum, (uint32_t)c[i]);
    return sum;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
