/* FreeRTOS's heaps under preemption: tasks of two priorities allocate and free side by side, each held up in the middle
   of it by the tick, whose handler has blocks of a pool of its own. All hold most at once where they meet, so that the
   peak does not depend on who ran when. What was counted is printed at the end; the kernel's own blocks are among it. */
#include "FreeRTOS.h"
#include "semphr.h"
#include "task.h"

#include "board.h"
#include "heap-truth.h"
#include "text.h"

void heap_line(const char *name, unsigned value);
void heap_line(const char *name, unsigned value) { print("%s: %u\n", name, value); }

#define NOIPA __attribute__((noipa))
enum { WORKERS = 4, ROUNDS = 300, BLOCKS = 20, LEAKED = 2, POOL = 24, POOL_BYTES = 48 };

static SemaphoreHandle_t met, go, done;
static volatile uint32_t interrupts;

/* ---- the pool, which interrupts may use ---- */

static struct { char bytes[POOL_BYTES]; int used; } pool[POOL];
static void *from_tick[POOL];

NOIPA void *pool_get(uint32_t size);
NOIPA void *pool_get(uint32_t size)
{
    uintptr_t lock = truth_lock();
    void *block = 0;
    for (int i = 0; i < POOL && !block && size <= POOL_BYTES; i++)
        if (!pool[i].used) {
            pool[i].used = 1;
            block = pool[i].bytes;
        }
    truth_in(block, size);
    truth_unlock(lock);
    return block;
}
NOIPA void pool_put(void *block);
NOIPA void pool_put(void *block)
{
    uintptr_t lock = truth_lock();
    truth_out(block);
    for (int i = 0; i < POOL; i++)
        if (block == pool[i].bytes)
            pool[i].used = 0;
    truth_unlock(lock);
}

static NOIPA void tick_takes(uint32_t nth) { from_tick[nth] = pool_get(nth + 1); }
void vApplicationTickHook(void)
{
    /* One more than there are. */
    if (interrupts < POOL)
        tick_takes(interrupts);
    else if (interrupts == POOL)
        pool_get(8);
    interrupts++;
}

/* ---- the kernel's heap, written down ---- */

void *__real_pvPortMalloc(size_t size);
void __real_vPortFree(void *block);
void *__wrap_pvPortMalloc(size_t size);
void __wrap_vPortFree(void *block);
void *__wrap_pvPortMalloc(size_t size)
{
    void *block = __real_pvPortMalloc(size);
    truth_in(block, size);
    return block;
}
void __wrap_vPortFree(void *block)
{
#ifndef HEAP_1
    truth_out(block);
    __real_vPortFree(block);
#endif
    (void)block;
}

/* ---- tasks ---- */

static NOIPA void churn(uint32_t x)
{
#ifndef HEAP_1
    void *one = pvPortMalloc(x % 60 + 1), *other = pvPortMalloc(x % 35 + 1);
    vPortFree(one);
    vPortFree(other);
#endif
    (void)x;
}
static NOIPA void *deeper(uint32_t depth, size_t size) { return depth ? deeper(depth - 1, size) : pvPortMalloc(size); }

static void worker(void *argument)
{
    uint32_t self = (uint32_t)(uintptr_t)argument;
    static void *blocks[WORKERS][BLOCKS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        churn(self * 977 + round * 31);
        if (round % 64 == 0)
            vTaskDelay(1);
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[self][i] = deeper(i % 5, 40 + 8 * self + i);
    configASSERT(pvPortMalloc(1024 * 1024) == NULL);
    xSemaphoreGive(met);
    xSemaphoreTake(go, portMAX_DELAY);
    for (uint32_t i = 0; i + LEAKED < BLOCKS; i++)
        vPortFree(blocks[self][i]);
    xSemaphoreGive(done);
    vTaskSuspend(NULL);
}

static void judge(void *argument)
{
    (void)argument;
    for (int i = 0; i < WORKERS; i++)
        xSemaphoreTake(met, portMAX_DELAY);
    while (interrupts <= POOL)
        vTaskDelay(1);
    for (int i = 0; i < WORKERS; i++)
        xSemaphoreGive(go);
    for (int i = 0; i < WORKERS; i++)
        xSemaphoreTake(done, portMAX_DELAY);
    for (int i = 0; i < POOL / 2; i++)
        pool_put(from_tick[i]);
    truth_print();
    board_exit(0);
}

void vApplicationIdleHook(void) {}
void vApplicationStackOverflowHook(TaskHandle_t task, char *name)
{
    (void)task;
    print("stack overflow in %s\n", name);
    board_exit(1);
}
void assert_failed(const char *file, int line)
{
    print("%s:%d\n", file, line);
    board_exit(1);
}

int main(void)
{
#ifdef HEAP_5
    static uint8_t low[96 * 1024], high[64 * 1024];
    HeapRegion_t regions[] = {{low, sizeof low}, {high, sizeof high}, {NULL, 0}};
    if (&low[0] > &high[0])
        regions[0] = (HeapRegion_t){high, sizeof high}, regions[1] = (HeapRegion_t){low, sizeof low};
    vPortDefineHeapRegions(regions);
#endif
    met = xSemaphoreCreateCounting(WORKERS, 0);
    go = xSemaphoreCreateCounting(WORKERS, 0);
    done = xSemaphoreCreateCounting(WORKERS, 0);
    board_rtos_vectors();
    for (uintptr_t i = 0; i < WORKERS; i++)
        xTaskCreate(worker, "worker", 256, (void *)i, 2 + i % 2, NULL);
    xTaskCreate(judge, "judge", 256, NULL, 1, NULL);
    vTaskStartScheduler();
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
