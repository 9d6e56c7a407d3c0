/* A task that waits for each thing that FreeRTOS has, a known number of times, and one of lower priority that ends each
   wait: harness/tests/timeline knows the numbers. The lower one is never idle, so that every other switch is a tick's. */
#include "FreeRTOS.h"
#include "event_groups.h"
#include "queue.h"
#include "semphr.h"
#include "task.h"

#include "board.h"
#include "text.h"

enum { RECEIVED = 5, SENT = 4, TAKEN = 3, LOCKED = 2, FLAGGED = 6, NOTIFIED = 7, DELAYED = 8, SUSPENDED = 9, LATE = 2 };

static StaticQueue_t inbox_queue, outbox_queue;
static uint8_t inbox_bytes[4], outbox_bytes[4];
static StaticEventGroup_t flags_group;
static QueueHandle_t inbox, outbox;
static SemaphoreHandle_t ready, bus;
static EventGroupHandle_t flags;
static TaskHandle_t waiting;
static volatile uint32_t sum, slept;

static void waits(void *argument)
{
    (void)argument;
    uint32_t word = 1;
    for (int i = 0; i < RECEIVED; i++) {
        xQueueReceive(inbox, &word, portMAX_DELAY);
        sum += word;
    }
    xQueueSend(outbox, &word, 0); /* it is full now */
    for (int i = 0; i < SENT; i++)
        xQueueSend(outbox, &word, portMAX_DELAY);
    for (int i = 0; i < TAKEN; i++)
        xSemaphoreTake(ready, portMAX_DELAY);
    for (int i = 0; i < LOCKED; i++) {
        xSemaphoreTake(ready, portMAX_DELAY);
        xSemaphoreTake(bus, portMAX_DELAY);
        xSemaphoreGive(bus);
    }
    for (int i = 0; i < FLAGGED; i++)
        xEventGroupWaitBits(flags, 1, pdTRUE, pdFALSE, portMAX_DELAY);
    for (int i = 0; i < NOTIFIED; i++)
        ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
    for (int i = 0; i < SUSPENDED; i++)
        vTaskSuspend(0);
    for (int i = 0; i < DELAYED; i++)
        vTaskDelay(1);
    for (int i = 0; i < LATE; i++)
        xQueueReceive(inbox, &word, 1);
    slept = 1;
    vTaskDelete(0);
}

static void ends(void *argument)
{
    (void)argument;
    uint32_t word = 7;
    for (int i = 0; i < RECEIVED; i++)
        xQueueSend(inbox, &word, 0);
    for (int i = 0; i < SENT; i++)
        xQueueReceive(outbox, &word, 0);
    for (int i = 0; i < TAKEN; i++)
        xSemaphoreGive(ready);
    for (int i = 0; i < LOCKED; i++) {
        xSemaphoreTake(bus, 0);
        xSemaphoreGive(ready);
        xSemaphoreGive(bus);
    }
    for (int i = 0; i < FLAGGED; i++)
        xEventGroupSetBits(flags, 1);
    for (int i = 0; i < NOTIFIED; i++)
        xTaskNotifyGive(waiting);
    for (int i = 0; i < SUSPENDED; i++)
        vTaskResume(waiting);
    while (!slept)
        sum++;
    print("waits: %u\n", (unsigned)(sum > RECEIVED * 7));
    board_exit(0);
}

void vApplicationTickHook(void) {}
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
    inbox = xQueueCreateStatic(1, sizeof(uint32_t), inbox_bytes, &inbox_queue);
    outbox = xQueueCreateStatic(1, sizeof(uint32_t), outbox_bytes, &outbox_queue);
    flags = xEventGroupCreateStatic(&flags_group);
    ready = xSemaphoreCreateBinary();
    bus = xSemaphoreCreateMutex();
    vQueueAddToRegistry(ready, "ready");
    vQueueAddToRegistry(bus, "bus");
    xTaskCreate(waits, "waits", 256, 0, 3, &waiting);
    xTaskCreate(ends, "ends", 256, 0, 1, 0);
    board_rtos_vectors();
    vTaskStartScheduler();
    return 3;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
