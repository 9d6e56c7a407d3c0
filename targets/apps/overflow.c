/* Tasks that leave their stacks at the low end, in a kernel that does not look: "brief" between two switches, "long"
   while it waits. "level" stays in its stack. What lies below belongs to nobody, so that all goes on. */
#include "FreeRTOS.h"
#include "task.h"

#include "board.h"
#include "text.h"

#define NOIPA __attribute__((noipa))
enum { WORDS = 256, FRAME_WORDS = 32 };

static struct {
    StackType_t nobodys[WORDS], stack[WORDS];
} tasks[3];
static StaticTask_t control[3];
static volatile uint32_t ended;

static NOIPA uint32_t deeper(uint32_t depth, TickType_t wait)
{
    volatile StackType_t local[FRAME_WORDS];
    local[depth] = depth;
    if (depth)
        return deeper(depth - 1, wait) + (uint32_t)local[depth];
    if (wait)
        vTaskDelay(wait);
    return (uint32_t)local[0];
}

static void runs(void *argument)
{
    const uint32_t which = (uint32_t)(uintptr_t)argument;
    static const uint32_t depths[] = { 9, 10, 1 };
    for (uint32_t round = 0; round < 3; round++) {
        deeper(1, 1);
        if (round == 0)
            deeper(depths[which], which == 1);
    }
    ended |= 1u << which;
    vTaskDelete(0);
}

static void boss(void *argument)
{
    (void)argument;
    while (ended != 7)
        vTaskDelay(1);
    print("overflow: all three have ended\n");
    board_exit(0);
}

void assert_failed(const char *file, int line)
{
    print("assertion: %s:%u\n", file, (unsigned)line);
    board_exit(2);
}
void vApplicationTickHook(void) {}
void vApplicationIdleHook(void) {}

int main(void)
{
    static const char *const names[] = { "brief", "long", "level" };
    for (uint32_t which = 0; which < 3; which++)
        xTaskCreateStatic(runs, names[which], WORDS, (void *)(uintptr_t)which, 2, tasks[which].stack, &control[which]);
    xTaskCreate(boss, "boss", 512, 0, 1, 0);
    board_rtos_vectors();
    vTaskStartScheduler();
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
