#include "heap-truth.h"

void heap_line(const char *name, unsigned value);

enum { BLOCKS = 512 };
static struct { const void *at; size_t size; } held[BLOCKS];
static unsigned allocations, bytes, frees, failures, live, live_blocks, peak, strangers;

void truth_in(const void *block, size_t size)
{
    uintptr_t lock = truth_lock();
    if (!block) {
        failures += size > 0;
    } else {
        allocations++;
        bytes += size;
        live += size;
        live_blocks++;
        if (live > peak)
            peak = live;
        for (int i = 0; i < BLOCKS; i++)
            if (!held[i].at) {
                held[i].at = block;
                held[i].size = size;
                break;
            }
    }
    truth_unlock(lock);
}

void truth_out(const void *block)
{
    if (!block)
        return;
    uintptr_t lock = truth_lock();
    int i = 0;
    while (i < BLOCKS && held[i].at != block)
        i++;
    if (i < BLOCKS) {
        frees++;
        live -= held[i].size;
        live_blocks--;
        held[i].at = 0;
    } else {
        strangers++;
    }
    truth_unlock(lock);
}

void truth_print(void)
{
    heap_line("allocations", allocations);
    heap_line("bytes", bytes);
    heap_line("frees", frees);
    heap_line("failures", failures);
    heap_line("peak", peak);
    heap_line("held", live);
    heap_line("held blocks", live_blocks);
    heap_line("strangers", strangers);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
