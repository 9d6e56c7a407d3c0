/* FreeRTOS tasks in the depths of their stacks: preempted there by the tick and by a task of higher priority,
   suspended there, interrupted there by software (NMI; on RISC-V a machine software interrupt and an illegal
   instruction, both on the kernel's interrupt stack), with floating point where there is an FPU. Two tasks are
   called "worker" and do different things; one is created by the other in the middle of its work; the memory of
   deleted ones is taken by a task of another name, and then by one of the same name. Bounded by units of work:
   what is printed does not depend on who ran when. */
#include "FreeRTOS.h"
#include "queue.h"
#include "semphr.h"
#include "task.h"

#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))
enum { WORKER_UNITS = 60, PULSE_UNITS = 150, SUSPENSIONS = 8, LIVES = 6 };

#ifdef __ARM_FP
typedef float number; /* small integers: exact */
#else
typedef int32_t number;
#endif

static SemaphoreHandle_t done;
static TaskHandle_t diver;
static volatile uint32_t interrupts, idle_runs, sums[6];
static volatile number handled;

static NOIPA number step(number x)
{
    number y = x, z = 1;
    for (int i = 0; i < 12; i++) {
        y += z;
        z += y > 1000 ? -3 : 2;
        y -= y > 1000 ? 997 : 0;
    }
    return y;
}
static NOIPA number helper(uint32_t depth, number x)
{
    number before = step(x);
    return depth ? helper(depth - 1, before) - before + step(before) : before;
}
static NOIPA number small(number x)
{
    while (x > 1000)
        x -= 777;
    while (x < 0)
        x += 500;
    return x;
}

/* ---- interrupts that the tasks pend themselves ---- */

static NOIPA void on_software(void)
{
    interrupts++;
    handled = small(helper(3, handled));
}
#ifdef __riscv
#define MSIP (*(volatile uint32_t *)0x02000000)
void freertos_risc_v_application_interrupt_handler(uint32_t cause);
void freertos_risc_v_application_exception_handler(uint32_t cause);
void freertos_risc_v_application_interrupt_handler(uint32_t cause)
{
    configASSERT((cause & 0xff) == 3);
    MSIP = 0;
    on_software();
}
void freertos_risc_v_application_exception_handler(uint32_t cause)
{
    configASSERT(cause == 2); /* the kernel goes on four bytes behind it */
    on_software();
}
static void allow_interrupts(void) { __asm__ volatile("csrs mie, %0" ::"r"(1 << 3)); }
static NOIPA void interrupt_here(uint32_t x)
{
    if (x & 1)
        MSIP = 1;
    else
        __asm__ volatile(".word 0xc0001073" ::: "memory"); /* unimp */
}
#else
void NMI_Handler(void);
void NMI_Handler(void) { on_software(); }
static void allow_interrupts(void) {}
static NOIPA void interrupt_here(uint32_t x)
{
    (void)x;
    *(volatile uint32_t *)0xe000ed04 = 1u << 31;
}
#endif

/* ---- two kinds of depth ---- */

typedef number diving(uint32_t depth, number x);
static diving *const dives[3];

static NOIPA number dive_small(uint32_t depth, number x)
{
    x = small(step(x));
    return depth ? dives[depth % 3](depth - 1, x) + 1 : helper(5, x);
}
static NOIPA number dive_large(uint32_t depth, number x)
{
    volatile uint32_t local[40];
    local[depth] = depth;
    x = small(helper(2, x));
    if (depth == 4)
        interrupt_here((uint32_t)x);
    return (depth ? dives[(depth + 1) % 3](depth - 1, x) : step(x)) + (number)local[depth];
}
static NOIPA number dive_variable(uint32_t depth, number x)
{
    volatile uint32_t local[depth * 3 + 1];
    local[depth] = depth + 1;
    x = small(step(x));
    return (depth ? dives[(depth + 2) % 3](depth - 1, x) : helper(3, x)) + (number)local[depth];
}
static diving *const dives[3] = { dive_small, dive_large, dive_variable };

static NOIPA number climb(uint32_t depth, number x)
{
    number a = step(x), b = step(a);
    if (depth == 0)
        return a + b;
    if (depth == 5)
        interrupt_here((uint32_t)a);
    return small(climb(depth - 1, small(a)) + climb(depth / 2, small(b)));
}

static NOIPA void add(int which, number x) { sums[which] = mix(sums[which], (uint32_t)(int32_t)small(x)); }

/* ---- the tasks ---- */

static void works_by_diving(void *argument);
static void works_by_climbing(void *argument)
{
    (void)argument;
    for (uint32_t unit = 0; unit < WORKER_UNITS; unit++) {
        add(0, climb(7, (number)unit));
        if (unit == WORKER_UNITS / 3)
            xTaskCreate(works_by_diving, "worker", 1100, 0, 1, 0);
    }
    xSemaphoreGive(done);
    vTaskDelete(0);
}
static void works_by_diving(void *argument)
{
    (void)argument;
    for (uint32_t unit = 0; unit < WORKER_UNITS; unit++)
        add(1, dives[unit % 3](12 + unit % 9, (number)unit));
    xSemaphoreGive(done);
    vTaskDelete(0);
}

/* Preempts every tick. */
static void pulses(void *argument)
{
    (void)argument;
    for (uint32_t unit = 0; unit < PULSE_UNITS; unit++) {
        vTaskDelay(1);
        add(2, helper(unit & 15, (number)unit));
    }
    xSemaphoreGive(done);
    vTaskDelete(0);
}

/* Is suspended wherever it is, and goes on there. */
static void dives_for_ever(void *argument)
{
    (void)argument;
    for (volatile uint32_t unit = 0;; unit++)
        handled = small(dives[unit % 3](14, (number)(unit & 127)));
}

/* Is deleted in the depth of its stack, which the next one gets. */
static NOIPA number waits_below(uint32_t depth, number x)
{
    volatile uint32_t local[20];
    local[depth] = depth;
    if (depth)
        return waits_below(depth - 1, step(x)) + (number)local[depth];
    xSemaphoreGive(done);
    vTaskSuspend(0);
    return x;
}
static void lives_shortly(void *argument)
{
    uint32_t life = (uint32_t)(uintptr_t)argument;
    add(3, helper(4 + life, (number)life));
    waits_below(6 + life % 3, 1);
}
static void lives_otherwise(void *argument)
{
    uint32_t life = (uint32_t)(uintptr_t)argument;
    add(4, climb(4, (number)life));
    waits_below(3, 2);
}

static void boss(void *argument)
{
    uint32_t reused = 0;
    TaskHandle_t child, before = 0;
    (void)argument;
    for (uint32_t life = 0; life < LIVES; life++) {
        static const char *const names[] = { "early", "later", "early" };
        xTaskCreate(life % 3 == 1 ? lives_otherwise : lives_shortly, names[life % 3], 500, (void *)(uintptr_t)life, 3, &child);
        xSemaphoreTake(done, portMAX_DELAY);
        reused += child == before;
        before = child;
        vTaskDelete(child);
    }
    print("crew: %u lives, %u in the memory of the one before\n", (unsigned)LIVES, (unsigned)reused);
    xTaskCreate(dives_for_ever, "diver", 1400, 0, 1, &diver);
    xTaskCreate(pulses, "pulses", 320, 0, 4, 0);
    xTaskCreate(works_by_climbing, "worker", 450, 0, 1, 0);
    for (uint32_t turn = 0; turn < SUSPENSIONS; turn++) {
        vTaskDelay(3);
        vTaskSuspend(diver);
        vTaskDelay(2);
        vTaskResume(diver);
    }
    vTaskDelete(diver);
    for (int i = 0; i < 3; i++)
        xSemaphoreTake(done, portMAX_DELAY);
    for (int which = 0; which < 5; which++)
        print("%u %08x\n", (unsigned)which, (unsigned)sums[which]);
    board_exit(interrupts == 0 || idle_runs == 0);
}

void vApplicationTickHook(void) {}
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
    done = xQueueCreate(8, 0); /* a semaphore that counts to 8 */
    xTaskCreate(boss, "boss", 512, 0, 5, 0);
    board_rtos_vectors();
    allow_interrupts();
    vTaskStartScheduler();
    return 3;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
