/* Threads in structures with RIOT's names, switched as its ports do: the scheduler names the next thread before the
   registers of the previous one are saved. On Cortex-M the handler of PendSV waits inside the scheduler while no thread
   is ready; on RISC-V the trap handler has a stack of its own, and there is an idle thread. Two threads take turns, one
   after the other ends on the same stack, another sleeps; each counts how often it was switched in. They take memory from
   the C library, from TLSF (a package of RIOT's), and from an array of elements. */
#include <stddef.h>

#include "board.h"
#include "text.h"
#include "work.h"
#include "zone.h"

enum { STATUS_STOPPED, STATUS_SLEEPING, STATUS_RUNNING = 9, STATUS_PENDING = 10 };
enum { ROUNDS = 25, SLEEPS = 10, STACK_BYTES = 1024, THREADS = 5 };

typedef struct _thread {
    char *sp;
    uint8_t status, priority;
    int16_t pid;
    struct _thread *rq_entry;
    char *stack_start;
    const char *name;
    int stack_size;
} thread_t;

/* Each thread's switches, by pid: as RIOT's statistics of its scheduler, which outlive threads. */
static unsigned schedules[1 + THREADS];

volatile thread_t *sched_threads[1 + THREADS], *sched_active_thread;
volatile int16_t sched_active_pid;
volatile unsigned sched_context_switch_request;
/* Volatile, so that reading one keeps it. */
const volatile uint8_t max_threads = 1 + THREADS, _tcb_name_offset = offsetof(thread_t, name);

static char stacks[4][STACK_BYTES] __attribute__((aligned(16)));
static volatile uint32_t sum, sleeper_ticks;

#ifdef __riscv
#if __riscv_xlen == 64
#define R "8"
#define L "ld "
#define S "sd "
#else
#define R "4"
#define L "lw "
#define S "sw "
#endif
/* As the members of struct context_switch_frame. */
#define EACH_CALLER_SAVED(op)                                                                                         \
    op(s0, 0) op(s1, 1) op(ra, 12) op(t0, 13) op(t1, 14) op(t2, 15) op(t3, 16) op(t4, 17) op(t5, 18) op(t6, 19)        \
    op(a0, 20) op(a1, 21) op(a2, 22) op(a3, 23) op(a4, 24) op(a5, 25) op(a6, 26) op(a7, 27)
#define EACH_CALLEE_SAVED(op)                                                                                         \
    op(s2, 2) op(s3, 3) op(s4, 4) op(s5, 5) op(s6, 6) op(s7, 7) op(s8, 8) op(s9, 9) op(s10, 10) op(s11, 11)
#define SAVE(name, at) S #name "," #at "*" R "(sp)\n\t"
#define RESTORE(name, at) L #name "," #at "*" R "(sp)\n\t"

struct context_switch_frame {
    uintptr_t s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;
    uintptr_t ra, t0, t1, t2, t3, t4, t5, t6, a0, a1, a2, a3, a4, a5, a6, a7;
    uintptr_t pc, pad[3];
};

static char isr_stack[2048] __attribute__((aligned(16), used));
uintptr_t trap(uintptr_t cause, uintptr_t pc);

/* A call of the environment asks for a switch; the rest is the board's. */
__attribute__((used, noipa)) void handle_trap(uintptr_t cause, uintptr_t pc)
{
    enum { ECALL = 11 };
    if (cause == ECALL) {
        sched_context_switch_request = 1;
        pc += 4;
    } else {
        pc = trap(cause, pc);
    }
    __asm__ volatile("csrw mepc, %0" ::"r"(pc));
}

__attribute__((naked, aligned(64))) static void trap_entry(void)
{
    __asm__("addi sp, sp, -32*" R "\n\t" EACH_CALLER_SAVED(SAVE)
            "mv s0, sp\n\t"
            "la sp, isr_stack+2048\n\t"
            "csrr a0, mcause\n\t"
            "csrr a1, mepc\n\t"
            "call handle_trap\n\t"
            "lw a0, sched_context_switch_request\n\t"
            "beqz a0, 1f\n\t"
            L "s1, sched_active_thread\n\t"
            "call sched_run\n"
            "1:\n\t"
            "mv sp, s0\n\t"
            "beqz a0, 3f\n\t"
            "beqz s1, 2f\n\t" EACH_CALLEE_SAVED(SAVE)
            "csrr t0, mepc\n\t"
            S "t0, 28*" R "(sp)\n\t"
            S "sp, 0(s1)\n"
            "2:\n\t"
            L "s1, sched_active_thread\n\t"
            L "sp, 0(s1)\n\t"
            L "t0, 28*" R "(sp)\n\t"
            "csrw mepc, t0\n\t" EACH_CALLEE_SAVED(RESTORE)
            "3:\n\t" EACH_CALLER_SAVED(RESTORE)
            "addi sp, sp, 32*" R "\n\t"
            "mret");
}

static void thread_yield_higher(void)
{
    __asm__ volatile("ecall" ::: "memory");
}

void sched_task_exit(void);

static char *thread_stack_init(void *(*function)(void *), void *argument, char *top)
{
    struct context_switch_frame *frame = (struct context_switch_frame *)((uintptr_t)top & ~(uintptr_t)15) - 1;
    for (unsigned word = 0; word < sizeof *frame / sizeof(uintptr_t); word++)
        ((uintptr_t *)frame)[word] = 0;
    frame->pc = (uintptr_t)function;
    frame->ra = (uintptr_t)sched_task_exit;
    frame->a0 = (uintptr_t)argument;
    return (char *)frame;
}

static void cpu_init(void)
{
    __asm__ volatile("csrw mtvec, %0" ::"r"(trap_entry));
}
#else
#define ICSR (*(volatile uint32_t *)0xe000ed04u)
#define SHPR3 (*(volatile uint32_t *)0xe000ed20u)
enum { PENDSVSET = 1 << 28 };

__attribute__((naked)) void isr_pendsv(void)
{
    __asm__("push {r4, lr}\n\t"
            "ldr r4, =sched_active_thread\n\t"
            "ldr r4, [r4]\n\t"
            "cpsid i\n\t"
            "bl sched_run\n\t"
            "cpsie i\n\t"
            "mov r1, r4\n\t"
            "pop {r4, lr}\n\t"
            "cmp r0, r1\n\t"
            "beq 2f\n\t"
            "cbz r1, 1f\n\t"
            "mrs r2, psp\n\t"
            "stmdb r2!, {r4-r11, lr}\n\t"
            "str r2, [r1]\n"
            "1:\n\t"
            "ldr r0, [r0]\n\t"
            "ldmia r0!, {r4-r11, lr}\n\t"
            "msr psp, r0\n"
            "2:\n\t"
            "bx lr\n\t"
            ".ltorg");
}
void PendSV_Handler(void) __attribute__((alias("isr_pendsv")));

static void thread_yield_higher(void)
{
    ICSR = PENDSVSET;
    __asm__ volatile("isb" ::: "memory");
}

void sched_task_exit(void);

static char *thread_stack_init(void *(*function)(void *), void *argument, char *top)
{
    uint32_t *sp = (uint32_t *)((uintptr_t)top & ~(uintptr_t)7);
    *--sp = 1u << 24;
    *--sp = (uint32_t)function;
    *--sp = (uint32_t)sched_task_exit;
    for (int word = 0; word < 4; word++)
        *--sp = 0;
    *--sp = (uint32_t)argument;
    *--sp = 0xfffffffd;
    for (int word = 0; word < 8; word++)
        *--sp = 0;
    return (char *)sp;
}

static void cpu_init(void)
{
    SHPR3 |= 0xffu << 16;
}

/* Interrupts are masked: one that is pending ends the wait, and is taken after it. */
static void sched_arch_idle(void)
{
    wait_for_interrupt();
    irq_enable();
    __asm__ volatile("isb" ::: "memory");
    irq_disable();
}
#endif

static thread_t *next_ready(void)
{
    static unsigned last;
    for (unsigned tried = 0; tried < THREADS; tried++) {
        last = last % THREADS + 1;
        volatile thread_t *thread = sched_threads[last];
        /* The idle thread has the lowest priority, and the last pid. */
        if (thread && thread->status >= STATUS_RUNNING && last != THREADS)
            return (thread_t *)thread;
    }
    return (thread_t *)sched_threads[THREADS];
}

__attribute__((used, noipa)) thread_t *sched_run(void)
{
    thread_t *previous = (thread_t *)sched_active_thread, *next;
    if (previous && previous->status == STATUS_RUNNING)
        previous->status = STATUS_PENDING;
#ifdef __riscv
    next = next_ready();
#else
    while (!(next = next_ready()))
        sched_arch_idle();
#endif
    sched_context_switch_request = 0;
    next->status = STATUS_RUNNING;
    if (previous != next) {
        sched_active_pid = next->pid;
        sched_active_thread = next;
        schedules[next->pid]++;
    }
    return next;
}

__attribute__((noipa)) void sched_task_exit(void)
{
    irq_disable();
    sched_threads[sched_active_pid] = 0;
    sched_active_thread->status = STATUS_STOPPED;
    sched_active_thread = 0;
    irq_enable();
    thread_yield_higher();
    __builtin_trap();
}

static void thread_create(int16_t pid, char *stack, void *(*function)(void *), const char *name)
{
    char *start = stack;
    thread_t *thread = (thread_t *)(stack + ((STACK_BYTES - sizeof(thread_t)) & ~(sizeof(void *) - 1)));
    for (; stack < (char *)thread; stack += sizeof(uintptr_t))
        *(uintptr_t *)stack = (uintptr_t)stack;
    *thread = (thread_t){ .status = STATUS_PENDING, .pid = pid, .stack_start = start, .name = name,
                          .stack_size = STACK_BYTES };
    thread->sp = thread_stack_init(function, (void *)(uintptr_t)pid, (char *)thread);
    sched_threads[pid] = thread;
}

static void sleep(void)
{
    irq_disable();
    sched_active_thread->status = STATUS_SLEEPING;
    irq_enable();
    thread_yield_higher();
}

/* As a timer of RIOT's wakes a thread: the switch follows the interrupt. */
void TIMER_HANDLER(void)
{
    sleeper_ticks++;
    for (int pid = 1; pid <= THREADS; pid++)
        if (sched_threads[pid] && sched_threads[pid]->status == STATUS_SLEEPING) {
            sched_threads[pid]->status = STATUS_PENDING;
#ifdef __riscv
            sched_context_switch_request = 1;
#else
            ICSR = PENDSVSET;
#endif
        }
}

/* Memory is never given out again: each of these takes the next piece. */
static void *take(size_t bytes)
{
    static char arena[4096] __attribute__((aligned(16)));
    static size_t used;
    irq_disable();
    char *piece = arena + used;
    used += (bytes + 15) & ~(size_t)15;
    irq_enable();
    return piece;
}

__attribute__((noipa)) void *malloc(size_t size) { return take(size); }
__attribute__((noipa)) void free(void *memory) { __asm__ volatile("" ::"r"(memory)); }
__attribute__((noipa)) void *tlsf_malloc(void *tlsf, size_t size) { return tlsf ? take(size) : 0; }
__attribute__((noipa)) void *tlsf_memalign(void *tlsf, size_t align, size_t bytes) { return align <= 16 ? tlsf_malloc(tlsf, bytes) : 0; }
__attribute__((noipa)) void *tlsf_realloc(void *tlsf, void *memory, size_t size) { return memory ? tlsf_malloc(tlsf, size) : 0; }
__attribute__((noipa)) void tlsf_free(void *tlsf, void *memory) { __asm__ volatile("" ::"r"(tlsf), "r"(memory)); }

typedef struct {
    void *free_data;
    size_t size;
} memarray_t;

static memarray_t array = { 0, 24 };

static __attribute__((noipa)) void *memarray_alloc(memarray_t *memory) { return take(memory->size); }
static __attribute__((noipa)) void memarray_free(memarray_t *memory, void *element) { memory->free_data = element; }

static __attribute__((noipa)) uint32_t dig(uint32_t depth, uint32_t x)
{
    for (uint32_t turn = 0; turn < 60; turn++)
        x = mix(x, turn);
    return depth ? dig(depth - 1, x) + 1 : x;
}

/* Returns an address, which must not be mistaken for a thread. */
static __attribute__((noipa)) void *takes_turns(void *pid)
{
    void *kept = malloc(40 * (size_t)(uintptr_t)pid);
    free(malloc(8));
    memarray_free(&array, memarray_alloc(&array));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ZONE_BEGIN("turn");
        sum += dig(1 + (uintptr_t)pid, round);
        ZONE_END("turn");
        thread_yield_higher();
    }
    sum += kept != 0;
    return (void *)sched_threads[1];
}

static __attribute__((noipa)) void *sleeps(void *pid)
{
    char *tlsf = tlsf_memalign(stacks, 16, 100);
    tlsf = tlsf_realloc(stacks, tlsf, 120);
    tlsf_free(stacks, tlsf);
    for (uint32_t turn = 0; turn < SLEEPS; turn++) {
        ZONE_BEGIN("sleeps");
        sleep();
        ZONE_END("sleeps");
        for (uint32_t part = 0; part < 3; part++) {
            sum += dig((uintptr_t)pid - part, turn);
            thread_yield_higher();
        }
    }
    return 0;
}

#ifdef __riscv
static __attribute__((noipa)) void *idle_thread(void *argument)
{
    for (;;)
        wait_for_interrupt();
    return argument;
}
#endif

static __attribute__((noipa)) void *main_trampoline(void *argument)
{
    thread_create(2, stacks[1], takes_turns, "first");
    thread_create(4, stacks[2], sleeps, "sleeper");
    while (sched_threads[2])
        sleep();
    thread_create(3, stacks[1], takes_turns, "second");
    while (sched_threads[3] || sched_threads[4])
        sleep();
    timer_stop();
    print("riot: main %u, first %u, second %u, sleeper %u", schedules[1], schedules[2], schedules[3], schedules[4]);
#ifdef __riscv
    print(", idle %u", schedules[5]);
#endif
    print("\n");
    board_exit(0);
    return argument;
}

int main(void)
{
    (void)max_threads, (void)_tcb_name_offset;
    irq_disable();
    cpu_init();
#ifdef __riscv
    thread_create(5, stacks[3], idle_thread, "idle");
#endif
    thread_create(1, stacks[0], main_trampoline, "main");
    timer_start(1000);
    irq_enable();
    thread_yield_higher();
    for (;;)
        ;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
