/* Quick sort (recursive) and heap sort (iterative). */
#include "work.h"

void fill(int32_t *values, int n, uint32_t seed)
{
    seed = seed * 2654435761u | 1;
    for (int i = 0; i < n; i++)
        values[i] = (int32_t)(xorshift(&seed) & 0xffff) - 0x8000;
}

static inline int partition(int32_t *values, int n)
{
    int32_t pivot = values[(n - 1) / 2]; /* never the last: both parts must be smaller than the whole */
    int i = 0, j = n - 1;
    for (;; i++, j--) {
        while (values[i] < pivot)
            i++;
        while (values[j] > pivot)
            j--;
        if (i >= j)
            return j + 1;
        swap(&values[i], &values[j]);
    }
}

void quick_sort(int32_t *values, int n)
{
    if (n < 2)
        return;
    int middle = partition(values, n);
    quick_sort(values, middle);
    quick_sort(values + middle, n - middle);
}

static __attribute__((noinline)) void sift_down(int32_t *values, int root, int n)
{
    for (int child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && values[child] < values[child + 1])
            child++;
        if (values[root] >= values[child])
            return;
        swap(&values[root], &values[child]);
    }
}

void heap_sort(int32_t *values, int n)
{
    for (int i = n / 2; i-- > 0;)
        sift_down(values, i, n);
    while (n-- > 1) {
        swap(&values[0], &values[n]);
        sift_down(values, 0, n);
    }
}

int is_sorted(const int32_t *values, int n)
{
    for (int i = 1; i < n; i++)
        if (values[i - 1] > values[i])
            return 0;
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
