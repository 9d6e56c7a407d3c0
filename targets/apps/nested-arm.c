/* Exceptions on top of exceptions: three interrupts of rising priority, pended by software and by SysTick, each
   in the middle of the others; one that follows another without a return in between (tail-chaining); SVC,
   PendSV; stacks that are not aligned; thread mode on the process stack; floating point in threads and handlers
   where there is an FPU. The vector table is in RAM. */
#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))
#define REGISTER(address) (*(volatile uint32_t *)(address))
#define VTOR REGISTER(0xe000ed08)
#define ICSR REGISTER(0xe000ed04)
#define ISER REGISTER(0xe000e100)
#define ISPR REGISTER(0xe000e200)
#define PRIORITY(irq) (*(volatile uint8_t *)(0xe000e400 + (irq)))
enum { ROUNDS = 600, PENDSVSET = 1 << 28 };
#ifdef __ARM_FP
typedef float number;
#else
typedef uint32_t number;
#endif

static volatile uint32_t runs[6];
static volatile number total;

static NOIPA number spend(number x)
{
    for (int i = 0; i < 12; i++)
        x = x * 3 + (number)runs[0];
    return x;
}
static NOIPA number helper(uint32_t depth, number x) { return depth ? helper(depth - 1, spend(x)) + 1 : spend(x); }

void low_IRQHandler(void)
{
    runs[1]++;
    ISPR = 1 << 1; /* middle: at once */
    total = helper(2, total);
    ISPR = 1 << 3; /* as low as this one: afterwards, without going back */
    total = helper(1, total);
}
void middle_IRQHandler(void)
{
    runs[2]++;
    total = helper(1, total);
    ISPR = 1 << 2; /* high: at once */
    total = helper(3, total);
    ICSR = PENDSVSET;
}
void high_IRQHandler(void) { runs[3]++; total = helper(4, total); }
void next_IRQHandler(void) { runs[4]++; total = helper(2, total); }
void PendSV_Handler(void) { runs[5]++; total = helper(1, total); }
void SVC_Handler(void) { ISPR = 1 << 0; total = helper(2, total); }
void SysTick_Handler(void) { ISPR = 1 << 2; total = helper(1, total); }

static NOIPA void call_supervisor(void) { __asm__ volatile("svc 0" ::: "memory"); }

/* Leaves the stack at a multiple of four while it works: exceptions align it. */
number misaligned(number x);
__asm__(".syntax unified\n.thumb\n.text\n.globl misaligned\n.type misaligned,%function\nmisaligned:\n"
        "push {r4, lr}\npush {r4}\nmov.w r4, #200\n1: subs r4, #1\nbne 1b\npop {r4}\npop {r4, pc}\n"
        ".size misaligned, . - misaligned\n");

static NOIPA uint32_t work_on(uint32_t rounds)
{
    number x = 1;
    for (uint32_t round = 0; round < rounds; round++) {
        x = helper(round & 7, x);
        ISPR = 1 << (round % 4);
        x = misaligned(x) + spend(x);
        call_supervisor();
    }
    return x != 0;
}

static uint32_t process_stack[512] __attribute__((aligned(8)));
static uint32_t ok;

/* The same on the process stack (CONTROL.SPSEL), which nobody called. */
__attribute__((used)) void on_process_stack(void)
{
    ok += work_on(ROUNDS);
    timer_stop();
    print("nested: %s\n", ok && runs[1] >= 2 * ROUNDS / 4 && runs[5] ? "ok" : "bad");
    board_exit(0);
}
_Noreturn void start_thread(void *stack);
__asm__(".globl start_thread\n.type start_thread,%function\nstart_thread:\n"
        "msr psp, r0\nmovs r0, #2\nmsr control, r0\nisb\nmov.w lr, #0\nb on_process_stack\n"
        ".size start_thread, . - start_thread\n");

int main(void)
{
    static const void *table[32] __attribute__((aligned(256)));
    const void *const *first = (const void *const *)VTOR;
    for (int i = 0; i < 16; i++)
        table[i] = first[i];
    const void *const handlers[] = { low_IRQHandler, middle_IRQHandler, high_IRQHandler, next_IRQHandler };
    for (int irq = 0; irq < 4; irq++)
        table[16 + irq] = handlers[irq];
    VTOR = (uint32_t)table;
    PRIORITY(0) = PRIORITY(3) = 0xc0;
    PRIORITY(1) = 0x80;
    PRIORITY(2) = 0x40;
    REGISTER(0xe000ed20) = 0xe0e00000; /* SysTick and PendSV below all */
    REGISTER(0xe000ed1c) = 0xe0000000; /* SVC */
    ISER = 0xf;
    timer_start(20000);
    ok = work_on(ROUNDS);
    start_thread(process_stack + 512);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
