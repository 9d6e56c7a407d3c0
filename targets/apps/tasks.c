/* Tasks that are easily taken for each other: two of one name, some that are deleted and whose memory the next
   ones get, under another name and under the same; created by tasks while others run. */
#include "FreeRTOS.h"
#include "queue.h"
#include "semphr.h"
#include "task.h"

#include "board.h"
#include "text.h"
#include "work.h"

enum { GENERATIONS = 12, UNITS = 40 };

static SemaphoreHandle_t done;
static volatile uint32_t sums[4], finished;

static __attribute__((noipa)) uint32_t crunch(uint32_t depth, uint32_t x)
{
    for (int i = 0; i < 200; i++)
        x = rotate_left(x, 7) + depth;
    return depth ? crunch(depth - 1, x) + 1 : x;
}

/* Two tasks called "worker" run these. */
static void adds(void *argument)
{
    (void)argument;
    for (int unit = 0; unit < UNITS; unit++)
        sums[0] += crunch(3, (uint32_t)unit);
    xSemaphoreGive(done);
    for (;;)
        vTaskDelay(portMAX_DELAY);
}
static void mixes(void *argument)
{
    (void)argument;
    for (int unit = 0; unit < UNITS; unit++)
        sums[1] = mix(sums[1], crunch(6, (uint32_t)unit));
    xSemaphoreGive(done);
    for (;;)
        vTaskDelay(portMAX_DELAY);
}

/* Short-lived ones: half delete themselves, half are deleted. */
static void once(void *argument)
{
    volatile uint8_t used[300];
    used[(uintptr_t)argument] = 1;
    sums[2] += crunch(2, (uint32_t)(uintptr_t)argument) * used[(uintptr_t)argument] ^ crunch(1, 0);
    finished++;
    xSemaphoreGive(done);
    if ((uintptr_t)argument & 1)
        vTaskDelete(0);
    for (;;)
        vTaskDelay(portMAX_DELAY);
}

static void parent(void *argument)
{
    static const char *const names[] = { "first", "second", "first" };
    (void)argument;
    for (uintptr_t generation = 0; generation < GENERATIONS; generation++) {
        TaskHandle_t child;
        xTaskCreate(once, names[generation % 3], 256, (void *)generation, 2, &child);
        xSemaphoreTake(done, portMAX_DELAY);
        if (!(generation & 1))
            vTaskDelete(child);
        vTaskDelay(2); /* the idle task frees the memory of those that deleted themselves */
    }
    xTaskCreate(adds, "worker", 256, 0, 2, 0);
    xTaskCreate(mixes, "worker", 256, 0, 2, 0);
    xSemaphoreTake(done, portMAX_DELAY);
    xSemaphoreTake(done, portMAX_DELAY);
    print("tasks: %u finished, %08x %08x %08x\n", (unsigned)finished, (unsigned)sums[0], (unsigned)sums[1], (unsigned)sums[2]);
    board_exit(0);
}

void vApplicationTickHook(void) {}
void vApplicationIdleHook(void) { wait_for_interrupt(); }
void vApplicationStackOverflowHook(TaskHandle_t task, char *name)
{
    (void)task;
    print("stack overflow in %s\n", name);
    board_exit(2);
}
void assert_failed(const char *file, int line)
{
    print("assertion failed: %s:%d\n", file, line);
    board_exit(2);
}

int main(void)
{
    done = xQueueCreate(4, 0); /* a counting semaphore at 0 */
    xTaskCreate(parent, "parent", 512, 0, 4, 0);
    board_rtos_vectors();
    vTaskStartScheduler();
    return 3;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
