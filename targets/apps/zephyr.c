/* Threads in structures with Zephyr's names, switched as its ports do. For Cortex-M: the handler of PendSV saves the
   thread of _kernel.cpus[0].current and takes the one in the ready queue's cache. For RISC-V: the kernel names the next
   thread, checks the word at the end of the last one's stack, and zephyr-riscv.S switches. The kernel starts as a dummy
   thread, on Cortex-M on the process stack. Two threads take turns with main; all wait for the tick, so that the idle
   thread runs. Each counts how often it was switched in. THREAD_NAME: names are in the threads, and the kernel has its
   table for debuggers. OWN_THREADS: the file that includes this one has what the threads do. USER_MODE (Cortex-M): a
   thread may lack privileges, and has a second stack for the kernel's code. */
#include <stddef.h>

#include "board.h"
#include "text.h"
#include "work.h"

enum { ROUNDS = 30, PAUSES = 10, STACK_BYTES = 1024, THREADS = 4 };
#ifdef USER_MODE
enum { SECOND_STACKS = 1 };
#else
enum { SECOND_STACKS = 0 };
#endif

#ifdef __riscv
struct _callee_saved {
    uintptr_t sp, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;
};
#else
struct _callee_saved {
    uint32_t v1, v2, v3, v4, v5, v6, v7, v8, psp;
};
#endif
struct _thread_stack_info {
    uintptr_t start;
    size_t size, delta;
};
typedef struct _dnode {
    struct _dnode *next, *prev;
} sys_dnode_t;
typedef struct {
    sys_dnode_t waitq;
} _wait_q_t;
struct _timeout {
    sys_dnode_t node;
    int32_t dticks;
};
struct _thread_base {
    _wait_q_t *pended_on;
    uint8_t user_options, thread_state;
    union {
        struct {
            int8_t prio;
            uint8_t sched_locked;
        };
        uint16_t preempt;
    };
    struct _timeout timeout;
};
struct k_thread {
    struct _thread_base base;
    struct _callee_saved callee_saved;
#ifdef USER_MODE
    struct {
        uint32_t mode, priv_stack_start;
    } arch;
#endif
    _wait_q_t join_queue;
    uint32_t switched_in;
#ifdef THREAD_NAME
    char name[32];
#endif
    struct _thread_stack_info stack_info;
};
struct _cpu {
    uint32_t nested;
    char *irq_stack;
    struct k_thread *current, *idle_thread;
};
struct z_kernel {
    struct _cpu cpus[1];
    struct {
        struct k_thread *cache;
    } ready_q;
};
volatile struct z_kernel _kernel;

#ifdef THREAD_NAME
/* CONFIG_DEBUG_THREAD_INFO's table; volatile, so that reading it keeps it. */
const volatile size_t _kernel_thread_info_offsets[] = {
    1,
    offsetof(struct _cpu, current),
    0xffffffff,
    0xffffffff,
    0xffffffff,
    offsetof(struct k_thread, base.thread_state),
    offsetof(struct k_thread, base.user_options),
    offsetof(struct k_thread, base.prio),
#ifdef __riscv
    offsetof(struct k_thread, callee_saved.sp),
#else
    offsetof(struct k_thread, callee_saved.psp),
#endif
    offsetof(struct k_thread, name),
};
#endif

typedef void (*k_thread_entry_t)(void *, void *, void *);

enum { DEAD = 8, PENDING = 2 };

struct k_thread z_main_thread, z_idle_thread, philosophers[2];
/* The first is the one that the kernel starts on. */
static char stacks[1 + THREADS + SECOND_STACKS][STACK_BYTES] __attribute__((aligned(16)));
static struct k_thread *const threads[THREADS] = { &z_main_thread, &philosophers[0], &philosophers[1], &z_idle_thread };
static volatile uint32_t sums[2], ticks;

#ifdef __riscv
_Static_assert(offsetof(struct k_thread, callee_saved) == 5 * sizeof(void *), "zephyr-riscv.S");

void z_riscv_switch(struct k_thread *next, struct k_thread *previous);
void z_riscv_thread_start(void);
void _isr_wrapper(void);
#else
#define ICSR (*(volatile uint32_t *)0xe000ed04u)
#define SHPR3 (*(volatile uint32_t *)0xe000ed20u)
enum { PENDSVSET = 1 << 28 };

/* Leaves a thread with the privileges that it had. */
#ifdef USER_MODE
_Static_assert(offsetof(struct k_thread, arch) == 56, "zephyr-user-arm.S");
#define RESTORE_MODE "ldr r3, [r2, #56]\n\tmrs r0, control\n\tbfi r0, r3, #0, #1\n\tmsr control, r0\n\t"
#else
#define RESTORE_MODE
#endif

__attribute__((naked)) void z_arm_pendsv(void)
{
    __asm__("ldr r1, =_kernel\n\t"
            "ldr r2, [r1, %0]\n\t"
            "add r0, r2, %1\n\t"
            "mrs r12, psp\n\t"
            "stmia r0, {r4-r11, r12}\n\t"
            "ldr r2, [r1, %2]\n\t"
            "str r2, [r1, %0]\n\t"
            "ldr r3, [r2, %3]\n\t"
            "adds r3, #1\n\t"
            "str r3, [r2, %3]\n\t" RESTORE_MODE
            "add r0, r2, %1\n\t"
            "ldmia r0, {r4-r11, r12}\n\t"
            "msr psp, r12\n\t"
            "bx lr\n\t"
            ".ltorg"
            :
            : "i"(offsetof(struct z_kernel, cpus[0].current)), "i"(offsetof(struct k_thread, callee_saved)),
              "i"(offsetof(struct z_kernel, ready_q.cache)), "i"(offsetof(struct k_thread, switched_in)));
}
void PendSV_Handler(void) __attribute__((alias("z_arm_pendsv")));
#endif

static struct k_thread *chosen(void)
{
    static unsigned last;
    for (unsigned tried = 0; tried < THREADS - 1; tried++) {
        last = (last + 1) % (THREADS - 1);
        if (!threads[last]->base.thread_state)
            return threads[last];
    }
    return &z_idle_thread;
}

#ifdef __riscv
#define STACK_SENTINEL 0xf0f0f0f0u

__attribute__((noipa)) void z_check_stack_sentinel(void)
{
    uintptr_t stack = _kernel.cpus[0].current->stack_info.start;
    /* The dummy thread has none. */
    if (stack && *(uint32_t *)stack != STACK_SENTINEL)
        board_exit(3);
}

static void z_current_thread_set(struct k_thread *next)
{
    _kernel.cpus[0].current = next;
    next->switched_in++;
}

/* The switch at the end of a trap: returns the next thread and the one that the trap has interrupted; null: it goes on. */
struct switch_handles {
    struct k_thread *next, *previous;
};

__attribute__((noipa, used)) struct switch_handles z_get_next_switch_handle(void)
{
    struct k_thread *previous = _kernel.cpus[0].current, *next = _kernel.ready_q.cache;
    if (next == previous)
        return (struct switch_handles){ 0, 0 };
    z_current_thread_set(next);
    return (struct switch_handles){ next, previous };
}

static inline void z_swap_to_cache(struct k_thread *current)
{
    struct k_thread *next = _kernel.ready_q.cache;
    z_check_stack_sentinel();
    z_current_thread_set(next);
    z_riscv_switch(next, current);
}
#else
static inline void z_swap_to_cache(struct k_thread *current)
{
    (void)current;
    ICSR = PENDSVSET;
}
#endif

static __attribute__((noipa)) void z_swap(int state)
{
    irq_disable();
    struct k_thread *current = _kernel.cpus[0].current;
    current->base.thread_state = (uint8_t)state;
    _kernel.ready_q.cache = chosen();
    if (_kernel.ready_q.cache != current)
        z_swap_to_cache(current);
    irq_enable();
#ifndef __riscv
    __asm__ volatile("isb" ::: "memory");
#endif
}

#ifndef OWN_THREADS
void TIMER_HANDLER(void)
{
    ticks++;
    if (z_main_thread.base.thread_state == PENDING) {
        z_main_thread.base.thread_state = 0;
#ifdef __riscv
        _kernel.ready_q.cache = &z_main_thread;
#else
        if (_kernel.cpus[0].current == &z_idle_thread) {
            _kernel.ready_q.cache = &z_main_thread;
            ICSR = PENDSVSET;
        }
#endif
    }
}
#endif

__attribute__((noipa)) void z_impl_k_thread_abort(struct k_thread *thread)
{
    (void)thread;
    z_swap(DEAD);
}

_Noreturn __attribute__((noipa)) void z_thread_entry(k_thread_entry_t entry, void *p1, void *p2, void *p3)
{
    entry(p1, p2, p3);
    z_impl_k_thread_abort(_kernel.cpus[0].current);
    board_exit(2);
}

__attribute__((noipa)) void idle(void *p1, void *p2, void *p3)
{
    (void)p1, (void)p2, (void)p3;
    for (;;)
        wait_for_interrupt();
}

static __attribute__((noipa)) uint32_t dine(uint32_t depth, uint32_t x)
{
    for (uint32_t turn = 0; turn < 60; turn++)
        x = mix(x, turn);
    return depth ? dine(depth - 1, x) + 1 : x;
}

#ifdef OWN_THREADS
static void philosopher(void *number, void *p2, void *p3);
static void bg_thread_main(void *p1, void *p2, void *p3);
#else
static __attribute__((noipa)) void philosopher(void *number, void *p2, void *p3)
{
    (void)p2, (void)p3;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sums[(uintptr_t)number] += dine(2, round);
        z_swap(0);
    }
}

static __attribute__((noipa)) void bg_thread_main(void *p1, void *p2, void *p3)
{
    (void)p1, (void)p2, (void)p3;
    for (int pause = 0; pause < PAUSES; pause++)
        z_swap(PENDING);
    while (!(philosophers[0].base.thread_state & philosophers[1].base.thread_state & DEAD))
        z_swap(PENDING);
    timer_stop();
    print("zephyr: main %u, first %u, second %u, idle %u\n", (unsigned)z_main_thread.switched_in,
          (unsigned)philosophers[0].switched_in, (unsigned)philosophers[1].switched_in, (unsigned)z_idle_thread.switched_in);
    board_exit(0);
}

#endif

/* lr is left as it was in memory: nothing returns there. */
static void z_setup_new_thread(struct k_thread *thread, char *stack, k_thread_entry_t entry, void *p1, const char *name)
{
    for (int byte = 0; byte < STACK_BYTES; byte++)
        stack[byte] = (char)0xaa;
#ifdef __riscv
    *(uint32_t *)stack = STACK_SENTINEL;
    enum { A0 = 8, A1, EPC = 16, STATUS, FRAME = 20, MPP_AND_MPIE = 0x1880 };
    uintptr_t *frame = (uintptr_t *)(stack + STACK_BYTES) - FRAME;
    for (int word = 0; word < FRAME; word++)
        frame[word] = 0;
    frame[A0] = (uintptr_t)entry;
    frame[A1] = (uintptr_t)p1;
    frame[EPC] = (uintptr_t)z_thread_entry;
    frame[STATUS] = MPP_AND_MPIE;
    thread->callee_saved.sp = (uintptr_t)frame;
    thread->callee_saved.ra = (uintptr_t)z_riscv_thread_start;
#else
    uint32_t *frame = (uint32_t *)(stack + STACK_BYTES) - 8;
    frame[0] = (uint32_t)entry;
    frame[1] = (uint32_t)p1;
    frame[6] = (uint32_t)z_thread_entry;
    frame[7] = 1u << 24;
    thread->callee_saved.psp = (uint32_t)frame;
#endif
    thread->stack_info.start = (uintptr_t)stack;
    thread->stack_info.size = STACK_BYTES;
#ifdef THREAD_NAME
    for (int at = 0; name[at]; at++)
        thread->name[at] = name[at];
#else
    (void)name;
#endif
}

#ifndef __riscv
static _Noreturn __attribute__((noipa)) void arch_switch_to_main_thread(struct k_thread *main_thread, char *stack_ptr,
                                                                        k_thread_entry_t entry)
{
    _kernel.cpus[0].current = main_thread;
    main_thread->switched_in++;
    __asm__ volatile("mov r0, %0\n\t"
                     "mov r1, %1\n\t"
                     "msr psp, r1\n\t"
                     "movs r1, #2\n\t"
                     "msr control, r1\n\t"
                     "isb\n\t"
                     "cpsie i\n\t"
                     "movs r1, #0\n\t"
                     "movs r2, #0\n\t"
                     "movs r3, #0\n\t"
                     "bl z_thread_entry"
                     :
                     : "r"(entry), "r"(stack_ptr)
                     : "r0", "r1", "r2", "r3", "memory");
    __builtin_unreachable();
}
#endif

static _Noreturn __attribute__((noipa, used)) void z_cstart(void)
{
    static char memory[sizeof(struct k_thread)] __attribute__((aligned(8)));
    struct k_thread *dummy = (struct k_thread *)memory;
    irq_disable();
    _kernel.cpus[0].current = dummy;
#ifdef __riscv
    __asm__ volatile("csrw mtvec, %0" ::"r"(_isr_wrapper));
#else
    SHPR3 |= 0xffu << 16;
#endif
    z_setup_new_thread(&z_main_thread, stacks[1], bg_thread_main, 0, "main");
    z_setup_new_thread(&philosophers[0], stacks[2], philosopher, (void *)0, "Philosopher 0");
    z_setup_new_thread(&philosophers[1], stacks[3], philosopher, (void *)1, "Philosopher 1");
    z_setup_new_thread(&z_idle_thread, stacks[4], idle, 0, "idle");
    _kernel.cpus[0].idle_thread = &z_idle_thread;
#ifdef __riscv
    timer_start(10000);
    irq_disable();
    _kernel.ready_q.cache = &z_main_thread;
    z_swap_to_cache(dummy);
    __builtin_unreachable();
#else
    timer_start(1000);
    arch_switch_to_main_thread(&z_main_thread, stacks[1] + STACK_BYTES, bg_thread_main);
#endif
}

/* As Zephyr's reset: the process stack pointer is the first stack's. */
int main(void)
{
#ifdef THREAD_NAME
    (void)_kernel_thread_info_offsets[0];
#endif
#ifdef __riscv
    z_cstart();
#else
    __asm__ volatile("msr psp, %0\n\t"
                     "movs r0, #2\n\t"
                     "msr control, r0\n\t"
                     "isb\n\t"
                     "mov lr, #0\n\t"
                     "b z_cstart"
                     :
                     : "r"(stacks[1])
                     : "r0", "lr", "memory");
    __builtin_unreachable();
#endif
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
