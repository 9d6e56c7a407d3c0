/* Zones in tasks that preempt each other, in the kernel's tick, and across tasks: begun in one, ended in another. */
#include "FreeRTOS.h"
#include "queue.h"
#include "task.h"

#include "board.h"
#include "text.h"
#include "work.h"
#include "zone.h"

enum { ROUNDS = 60 };

static QueueHandle_t queue;
static volatile uint32_t sums[3], ticked;

__attribute__((noipa)) uint32_t crunch(uint32_t x, uint32_t turns)
{
    ZONE("crunch");
    for (uint32_t i = 0; i < turns; i++)
        x = mix(x, i);
    return x;
}

__attribute__((noipa)) uint32_t shuffle(uint32_t x)
{
    ZONE("shuffle");
    for (uint32_t i = 0; i < 40; i++)
        x = rotate_left(x, 7) + i;
    return crunch(x, 30);
}

__attribute__((noipa)) uint32_t tick(uint32_t x)
{
    ZONE("tick");
    for (uint32_t i = 0; i < 10; i++)
        x = mix(x, i);
    return x;
}

static void busy(void *argument)
{
    const uintptr_t which = (uintptr_t)argument;
    for (;;)
        sums[which] += crunch(sums[which], 400 + 100 * which);
}

static void sends(void *argument)
{
    (void)argument;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (i % 2)
            PHASE("odd");
        else
            PHASE("even");
        ZONE("round");
        if (i == 5)
            ZONE_BEGIN("baton");
        sums[2] = shuffle(sums[2]);
        xQueueSend(queue, &i, portMAX_DELAY);
        vTaskDelay(1 + i % 3);
        MARK("round", i);
    }
    for (;;)
        vTaskDelay(portMAX_DELAY);
}

static void receives(void *argument)
{
    (void)argument;
    for (uint32_t i = 0, got = 0; i < ROUNDS; i++) {
        ZONE_BEGIN("wait");
        xQueueReceive(queue, &got, portMAX_DELAY);
        ZONE_END("wait");
        if (got == 5)
            ZONE_END("baton");
        sums[1] = shuffle(got);
    }
    print("zones-tasks: %u\n", (unsigned)(ticked != 0));
    board_exit(0);
}

void vApplicationTickHook(void) { ticked = tick(ticked); }
void vApplicationIdleHook(void) { wait_for_interrupt(); }
void vApplicationStackOverflowHook(TaskHandle_t task, char *name)
{
    (void)task;
    print("stack overflow in %s\n", name);
    board_exit(1);
}
void assert_failed(const char *file, int line)
{
    print("assertion failed: %s:%d\n", file, line);
    board_exit(2);
}

int main(void)
{
    queue = xQueueCreate(4, sizeof(uint32_t));
    xTaskCreate(busy, "busy", 256, (void *)0, 1, 0);
    xTaskCreate(busy, "busier", 256, (void *)1, 1, 0);
    xTaskCreate(sends, "sends", 256, 0, 2, 0);
    xTaskCreate(receives, "receives", 256, 0, 3, 0);
    board_rtos_vectors();
    vTaskStartScheduler();
    return 3;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
