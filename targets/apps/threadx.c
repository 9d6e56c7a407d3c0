/* Threads in structures with ThreadX's names, switched as its ports do. For Cortex-M: the handler of PendSV stores NULL
   to _tx_thread_current_ptr, saves the thread, and waits inside until a thread is ready. For RISC-V: threadx-riscv.S. Two
   threads take turns, a third sleeps, on RISC-V preempting the others; each counts how often it was switched in, and the
   kernel how often none was ready.
   OWN_THREADS: the file that includes this one has other threads. */
#include <stddef.h>

#include "board.h"
#include "text.h"
#include "work.h"

enum { TX_READY = 0, TX_COMPLETED = 1, TX_SLEEP = 4 };
enum { ROUNDS = 40, SLEEPS = 12, STACK_WORDS = 256 };
#ifdef __riscv
enum { TICK_HZ = 10000 };
#else
enum { TICK_HZ = 1000 };
#endif

typedef struct TX_THREAD_STRUCT {
    uint32_t tx_thread_id;
    uint32_t tx_thread_run_count;
    void *tx_thread_stack_ptr, *tx_thread_stack_start, *tx_thread_stack_end;
    uint32_t tx_thread_stack_size;
    char *tx_thread_name;
    uint32_t tx_thread_priority, tx_thread_state;
    void (*tx_thread_entry)(uint32_t);
    uint32_t tx_thread_entry_parameter;
    uint32_t tx_remaining_ticks;
    void *tx_thread_suspend_control_block;
    struct TX_THREAD_STRUCT *tx_thread_created_next;
} TX_THREAD;

TX_THREAD *volatile _tx_thread_current_ptr, *volatile _tx_thread_execute_ptr, *_tx_thread_created_ptr;

static uint32_t stacks[3][STACK_WORDS] __attribute__((aligned(16)));
static volatile uint32_t sums[3], idles;

#ifdef __riscv
_Static_assert(offsetof(TX_THREAD, tx_thread_run_count) == 4 && offsetof(TX_THREAD, tx_thread_stack_ptr) == 8, "port");

void *_tx_thread_system_stack_ptr;
void threadx_trap_entry(void);
void _tx_thread_system_return(void);
_Noreturn void _tx_thread_schedule(void);
#else
#define ICSR (*(volatile uint32_t *)0xe000ed04u)
#define SHPR3 (*(volatile uint32_t *)0xe000ed20u)
enum { PENDSVSET = 1 << 28 };

__attribute__((naked)) void PendSV_Handler(void)
{
    __asm__("ldr r0, =_tx_thread_current_ptr\n\t"
            "ldr r2, =_tx_thread_execute_ptr\n\t"
            "ldr r1, [r0]\n\t"
            "cbz r1, 1f\n\t"
            "movs r3, #0\n\t"
            "str r3, [r0]\n\t"
            "mrs r12, psp\n\t"
            "stmdb r12!, {r4-r11, lr}\n\t"
            "str r12, [r1, %0]\n"
            "1:\n\t"
            "cpsid i\n\t"
            "ldr r1, [r2]\n\t"
            "str r1, [r0]\n\t"
            "cbnz r1, 2f\n\t"
            "wfi\n\t"
            "cpsie i\n\t"
            "isb\n\t"
            "b 1b\n"
            "2:\n\t"
            "cpsie i\n\t"
            "ldr r3, [r1, %1]\n\t"
            "adds r3, #1\n\t"
            "str r3, [r1, %1]\n\t"
            "ldr r12, [r1, %0]\n\t"
            "ldmia r12!, {r4-r11, lr}\n\t"
            "msr psp, r12\n\t"
            "bx lr\n\t"
            ".ltorg"
            :
            : "i"(offsetof(TX_THREAD, tx_thread_stack_ptr)), "i"(offsetof(TX_THREAD, tx_thread_run_count)));
}

static void _tx_thread_system_return(void)
{
    ICSR = PENDSVSET;
    irq_enable();
    __asm__ volatile("isb" ::: "memory");
}
#endif

static TX_THREAD *next_ready(TX_THREAD *after)
{
    TX_THREAD *thread = after;
    do {
        thread = thread->tx_thread_created_next;
        if (thread->tx_thread_state == TX_READY)
            return thread;
    } while (thread != after);
    return 0;
}

static __attribute__((noipa)) void leave(uint32_t state)
{
    irq_disable();
    TX_THREAD *thread = _tx_thread_current_ptr;
    thread->tx_thread_state = state;
    _tx_thread_execute_ptr = next_ready(thread);
    idles += !_tx_thread_execute_ptr;
    if (_tx_thread_execute_ptr != thread)
        _tx_thread_system_return();
    irq_enable();
}

static void tx_thread_sleep(uint32_t ticks)
{
    _tx_thread_current_ptr->tx_remaining_ticks = ticks;
    leave(TX_SLEEP);
}

#ifndef OWN_THREADS
static TX_THREAD north, south, sleeper;

void TIMER_HANDLER(void)
{
    if (sleeper.tx_thread_state == TX_SLEEP && !--sleeper.tx_remaining_ticks) {
        sleeper.tx_thread_state = TX_READY;
#ifndef __riscv
        if (!_tx_thread_execute_ptr)
#endif
            _tx_thread_execute_ptr = &sleeper;
    }
}
#endif

__attribute__((noipa)) void _tx_thread_shell_entry(void)
{
    TX_THREAD *thread = _tx_thread_current_ptr;
    thread->tx_thread_entry(thread->tx_thread_entry_parameter);
    leave(TX_COMPLETED);
    board_exit(2);
}

static __attribute__((noipa)) uint32_t dig(uint32_t depth, uint32_t x)
{
    for (uint32_t turn = 0; turn < 60; turn++)
        x = mix(x, turn);
    return depth ? dig(depth - 1, x) + 1 : x;
}

#ifndef OWN_THREADS
static void tx_thread_relinquish(void) { leave(TX_READY); }

static __attribute__((noipa)) void works(uint32_t number)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sums[number] += dig(2 + 2 * number, round);
        tx_thread_relinquish();
    }
}

static __attribute__((noipa)) void sleeps(uint32_t number)
{
    for (uint32_t sleep = 0; sleep < SLEEPS; sleep++) {
        tx_thread_sleep(3);
        sums[number] += dig(1, sleep);
    }
    while (north.tx_thread_state != TX_COMPLETED || south.tx_thread_state != TX_COMPLETED)
        tx_thread_relinquish();
    timer_stop();
    print("threadx: north %u, south %u, sleeper %u, idle %u\n", (unsigned)north.tx_thread_run_count,
          (unsigned)south.tx_thread_run_count, (unsigned)sleeper.tx_thread_run_count, (unsigned)idles);
    board_exit(0);
}
#endif

static void create(TX_THREAD *thread, char *name, void (*entry)(uint32_t), uint32_t number)
{
    uint32_t *stack = stacks[number];
    for (int word = 0; word < STACK_WORDS; word++)
        stack[word] = 0xefefefef;
#ifdef __riscv
    enum { TYPE = 0, RA = 28, EPC = 30, FRAME = 32 };
    uintptr_t *sp = (uintptr_t *)(stack + STACK_WORDS) - FRAME;
    for (int word = 0; word < FRAME; word++)
        sp[word] = 0;
    sp[TYPE] = 1;
    sp[EPC] = (uintptr_t)_tx_thread_shell_entry;
#else
    uint32_t *sp = stack + STACK_WORDS;
    *--sp = 1u << 24;                        /* xPSR */
    *--sp = (uint32_t)_tx_thread_shell_entry; /* pc */
    *--sp = 0xffffffff;                      /* lr: the thread returns nowhere */
    for (int word = 0; word < 5; word++)
        *--sp = 0; /* r12, r3 to r0 */
    *--sp = 0xfffffffd;
    for (int word = 0; word < 8; word++)
        *--sp = 0; /* r11 to r4 */
#endif
    thread->tx_thread_id = 0x54485244;
    thread->tx_thread_stack_ptr = sp;
    thread->tx_thread_stack_start = stack;
    thread->tx_thread_stack_size = sizeof stacks[number];
    thread->tx_thread_stack_end = (char *)stack + sizeof stacks[number] - 1;
    thread->tx_thread_name = name;
    thread->tx_thread_entry = entry;
    thread->tx_thread_entry_parameter = number;
    thread->tx_thread_created_next = _tx_thread_created_ptr ? _tx_thread_created_ptr->tx_thread_created_next : thread;
    if (_tx_thread_created_ptr)
        _tx_thread_created_ptr->tx_thread_created_next = thread;
    else
        _tx_thread_created_ptr = thread;
}

#ifdef __riscv
/* The kernel goes on with this stack whenever no thread runs. */
static _Noreturn void start(void)
{
    irq_disable();
    __asm__ volatile("csrw mtvec, %0" ::"r"(threadx_trap_entry));
    _tx_thread_system_stack_ptr = __builtin_frame_address(0);
    __asm__ volatile("mv sp, %0\n\tj _tx_thread_schedule" ::"r"(_tx_thread_system_stack_ptr) : "memory");
    __builtin_unreachable();
}
#else
static _Noreturn void start(void)
{
    SHPR3 |= 0xffu << 16;
    ICSR = PENDSVSET;
    irq_enable();
    for (;;)
        ;
}
#endif

#ifndef OWN_THREADS
int main(void)
{
    create(&north, "north", works, 0);
    create(&south, "south", works, 1);
    create(&sleeper, "night sleeper", sleeps, 2);
    _tx_thread_execute_ptr = &north;
    timer_start(TICK_HZ);
    start();
}
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
