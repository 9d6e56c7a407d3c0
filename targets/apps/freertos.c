/* A FreeRTOS application as a product would have it: six tasks of five priorities, a queue, a mutex, a
   software timer, a tick that preempts. Bounded by units of work, never by time, so that the last line
   is the same on every machine; what the scheduler did on the way (ticks, idle) is printed before it. */
#include "FreeRTOS.h"
#include "queue.h"
#include "semphr.h"
#include "task.h"
#include "timers.h"

#include "board.h"
#include "text.h"
#include "work.h"

enum kind { CRC, MATRIX, SORT, FORMAT, RECURSION, KINDS };

struct job {
    const char *name;
    uint32_t (*unit)(uint32_t seed);
    uint32_t units;
    TickType_t pause; /* after each unit, in ticks */
    UBaseType_t priority;
};

struct result { enum kind kind; uint32_t sum; };

static QueueHandle_t results;
static SemaphoreHandle_t ledger_lock;
static struct { uint32_t units, sum; } ledger[KINDS]; /* under ledger_lock */
static volatile uint32_t ticks, timer_runs, idle_runs;

static uint32_t crc_unit(uint32_t seed)
{
    static uint32_t buffer[512];
    seed = seed * 2654435761u | 1;
    for (int i = 0; i < 512; i++)
        buffer[i] = xorshift(&seed);
    return crc32_bitwise(buffer, sizeof buffer) ^ crc32_table(buffer, sizeof buffer - 1);
}

static uint32_t sort_unit(uint32_t seed)
{
    static int32_t values[1024];
    fill(values, 1024, seed);
    (seed & 1 ? quick_sort : heap_sort)(values, 1024);
    configASSERT(is_sorted(values, 1024));
    return (uint32_t)values[seed & 1023];
}

static uint32_t text_unit(uint32_t seed) { return format_unit(seed, 24); }
static uint32_t recursion_unit(uint32_t seed) { return fib(13 + (seed & 3)) + tree_unit(seed, 64) + ackermann(2, 20); }

#ifndef REPEAT
#define REPEAT 1 /* freertos-long.c does more of the same */
#endif
#ifdef SHORT
#define UNITS(n) ((n) / 10)
#else
#define UNITS(n) ((n) * REPEAT)
#endif

static const struct job jobs[KINDS] = {
    [CRC] = { "crc", crc_unit, UNITS(400), 2, 4 },
    [MATRIX] = { "matrix", matrix_unit, UNITS(700), 1, 3 },
    [SORT] = { "sort", sort_unit, UNITS(250), 1, 1 },
    [FORMAT] = { "format", text_unit, UNITS(900), 1, 2 },
    [RECURSION] = { "recursion", recursion_unit, UNITS(600), 0, 1 },
};

/* One per kind of work; `sort` and `recursion` share a priority, and so the processor by the tick. */
static void worker(void *argument)
{
    const struct job *job = argument;
    for (uint32_t unit = 1; unit <= job->units; unit++) {
        struct result result = { (enum kind)(job - jobs), job->unit(unit) };
        xSemaphoreTake(ledger_lock, portMAX_DELAY);
        ledger[result.kind].units++;
        ledger[result.kind].sum = mix(ledger[result.kind].sum, result.sum);
        xSemaphoreGive(ledger_lock);
        xQueueSend(results, &result, portMAX_DELAY);
        if (job->pause)
            vTaskDelay(job->pause);
    }
    vTaskDelete(0);
}

/* Receives every result, says when a kind of work is done, and ends the run after the last one. */
static void reporter(void *argument)
{
    uint32_t received[KINDS] = { 0 }, left = 0, all = 0;
    (void)argument;
    for (int kind = 0; kind < KINDS; kind++)
        left += jobs[kind].units;
    for (; left; left--) {
        struct result result;
        xQueueReceive(results, &result, portMAX_DELAY);
        const struct job *job = &jobs[result.kind];
        if (++received[result.kind] == job->units)
            print("%10s: %u units at tick %u\n", job->name, (unsigned)job->units, (unsigned)xTaskGetTickCount());
    }
    xSemaphoreTake(ledger_lock, portMAX_DELAY);
    print("ticks %u, timer %u, idle %u\n", (unsigned)ticks, (unsigned)timer_runs, (unsigned)idle_runs);
    for (int kind = 0; kind < KINDS; kind++) {
        configASSERT(ledger[kind].units == jobs[kind].units);
        print("%10s %08x\n", jobs[kind].name, (unsigned)ledger[kind].sum);
        all = mix(all, ledger[kind].sum);
    }
    print("result %08x\n", (unsigned)all);
    board_exit(ticks == 0 || timer_runs == 0);
}

static void on_timer(TimerHandle_t timer)
{
    (void)timer;
    timer_runs++;
}

void vApplicationTickHook(void) { ticks++; }

void vApplicationIdleHook(void)
{
    idle_runs++;
    wait_for_interrupt();
}

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
    print("freertos: %u kinds of work, kernel %s\n", (unsigned)KINDS, tskKERNEL_VERSION_NUMBER);
    results = xQueueCreate(4, sizeof(struct result));
    ledger_lock = xSemaphoreCreateMutex();
    for (int kind = 0; kind < KINDS; kind++)
        xTaskCreate(worker, jobs[kind].name, 512, (void *)&jobs[kind], jobs[kind].priority, 0);
    xTaskCreate(reporter, "reporter", 512, 0, 5, 0);
    xTimerStart(xTimerCreate("timer", 10, pdTRUE, 0, on_timer), 0);
    board_rtos_vectors();
    vTaskStartScheduler();
    return 3;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
