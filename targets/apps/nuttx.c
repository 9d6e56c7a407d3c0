/* Tasks in structures with NuttX's names, switched as its ports do: every exception saves the task's registers on its
   stack, and the handler names the next task. A task that ends names its successor itself, while it still executes.
   The kernel's start becomes the idle task. Two tasks take turns, one after the other ends in the same control block,
   another sleeps; each counts how often it was switched in. They take memory from the kernel's heap. */
#include <stddef.h>

#include "board.h"
#include "text.h"
#include "work.h"
#include "zone.h"

enum { TSTATE_TASK_INVALID, TSTATE_TASK_READYTORUN = 2, TSTATE_TASK_RUNNING = 4, TSTATE_SLEEPING = 8 };
enum { SYS_restore_context, SYS_switch_context };
enum { ROUNDS = 25, SLEEPS = 10, STACK_BYTES = 1024, FRAME_BYTES = 64, TASKS = 4 };

struct xcptcontext {
    uintptr_t *regs;
};

struct tcb_s {
    struct tcb_s *flink;
    int pid;
    uint8_t sched_priority, task_state;
    void (*entry)(int);
    size_t adj_stack_size;
    void *stack_alloc_ptr, *stack_base_ptr;
    struct xcptcontext xcp;
    char name[32];
};

struct tcbinfo_s {
    uint16_t pid_off, state_off, pri_off, name_off, stack_off, stack_size_off, regs_off, regs_num;
    union {
        uint8_t u[8];
        const uint16_t *p;
    } __attribute__((packed)) reg_off;
} __attribute__((packed));

/* Places of the saved registers, in words, and in GDB's order; not that of RISC-V's x0. */
#define AT(word) ((word) * sizeof(uintptr_t))
static const uint16_t g_reg_offs[] = {
#ifdef __riscv
    AT(0),  AT(1),  AT(2),  AT(3),  AT(4),  AT(5),  AT(6),  AT(7),  AT(8),  AT(9),  AT(10),
    AT(11), AT(12), AT(13), AT(14), AT(15), AT(16), AT(17), AT(18), AT(19), AT(20), AT(21),
    AT(22), AT(23), AT(24), AT(25), AT(26), AT(27), AT(28), AT(29), AT(30), AT(31), AT(0),
#else
    AT(12), AT(13), AT(14), AT(15), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8), AT(9), AT(16), AT(0), AT(17),
    AT(18), AT(19),
#endif
};

struct tcb_s *volatile g_running_tasks[1];
/* All tasks. */
struct tcb_s **g_pidhash;
volatile int g_npidhash;
/* Volatile, so that reading it keeps it. */
const volatile struct tcbinfo_s g_tcbinfo = {
    offsetof(struct tcb_s, pid),
    offsetof(struct tcb_s, task_state),
    offsetof(struct tcb_s, sched_priority),
    offsetof(struct tcb_s, name),
    offsetof(struct tcb_s, stack_alloc_ptr),
    offsetof(struct tcb_s, adj_stack_size),
    offsetof(struct tcb_s, xcp.regs),
    sizeof g_reg_offs / sizeof *g_reg_offs,
    { .p = g_reg_offs },
};

/* The first is the idle task's. */
static struct tcb_s tcbs[TASKS];
/* The upper part of each is the kernel's own. */
static char stacks[TASKS][STACK_BYTES + FRAME_BYTES] __attribute__((aligned(16)));
static volatile uint32_t sum;
/* By pid: they outlive the tasks. */
static unsigned switched_in[2 + TASKS];

static struct tcb_s *this_task(void)
{
    static unsigned last;
    struct tcb_s *running = g_running_tasks[0];
    if (running != &tcbs[0] && running->task_state == TSTATE_TASK_RUNNING)
        return running;
    for (unsigned tried = 1; tried < TASKS; tried++) {
        last = last % (TASKS - 1) + 1;
        if (tcbs[last].task_state >= TSTATE_TASK_READYTORUN && tcbs[last].task_state <= TSTATE_TASK_RUNNING)
            return &tcbs[last];
    }
    return &tcbs[0];
}

static void note_switch(struct tcb_s *next)
{
    next->task_state = TSTATE_TASK_RUNNING;
    switched_in[next->pid]++;
}

/* Handles an exception of the running task with its registers on its stack; returns those to go on with. */
static inline uintptr_t *do_irq(int is_restore, void (*dispatch)(void), uintptr_t *regs)
{
    struct tcb_s *running = g_running_tasks[0], *next;
    if (!is_restore)
        running->xcp.regs = regs;
    dispatch();
    next = is_restore ? running : this_task();
    if (next != running) {
        note_switch(next);
        g_running_tasks[0] = next;
    }
    regs = next->xcp.regs;
    next->xcp.regs = 0;
    return regs;
}

static void dispatch_nothing(void) {}

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
#define EACH_SAVED(op)                                                                                                \
    op(ra, 1) op(t0, 5) op(t1, 6) op(t2, 7) op(s0, 8) op(s1, 9) op(a0, 10) op(a1, 11) op(a2, 12) op(a3, 13)            \
    op(a4, 14) op(a5, 15) op(a6, 16) op(a7, 17) op(s2, 18) op(s3, 19) op(s4, 20) op(s5, 21) op(s6, 22) op(s7, 23)      \
    op(s8, 24) op(s9, 25) op(s10, 26) op(s11, 27) op(t3, 28) op(t4, 29) op(t5, 30) op(t6, 31)
#define SAVE(name, at) S #name "," #at "*" R "(sp)\n\t"
#define RESTORE(name, at) L #name "," #at "*" R "(sp)\n\t"
/* A frame keeps the stack aligned to 16 bytes. */
enum { ECALL = 11, REG_EPC = 0, REG_SP = 2, REG_GP = 3, REG_A0 = 10, REG_INT_CTX = 32, REGS = 36, MPP_AND_MPIE = 0x1880 };

static char interrupt_stack[2048] __attribute__((aligned(16), used));
uintptr_t trap(uintptr_t cause, uintptr_t pc);

static void dispatch_timer(void)
{
    const uintptr_t interrupt = (uintptr_t)1 << (sizeof(uintptr_t) * 8 - 1);
    trap(interrupt | 7, 0);
}

__attribute__((used, noipa)) uintptr_t *riscv_doirq(uintptr_t cause, uintptr_t *regs)
{
    if (cause != ECALL)
        return do_irq(0, dispatch_timer, regs);
    regs[REG_EPC] += 4;
    return do_irq(regs[REG_A0] == SYS_restore_context, dispatch_nothing, regs);
}

__attribute__((naked, aligned(4))) static void exception_common(void)
{
    __asm__("addi sp, sp, -36*" R "\n\t" EACH_SAVED(SAVE)
            "addi t0, sp, 36*" R "\n\t"
            S "t0, 2*" R "(sp)\n\t"
            S "gp, 3*" R "(sp)\n\t"
            S "tp, 4*" R "(sp)\n\t"
            "csrr a0, mcause\n\t"
            "csrr t0, mepc\n\t"
            S "t0, 0(sp)\n\t"
            "csrr t0, mstatus\n\t"
            S "t0, 32*" R "(sp)\n\t"
            "mv a1, sp\n\t"
            "la sp, interrupt_stack+2048\n\t"
            "call riscv_doirq\n\t"
            "mv sp, a0\n\t"
            L "t0, 0(sp)\n\t"
            "csrw mepc, t0\n\t"
            L "t0, 32*" R "(sp)\n\t"
            "csrw mstatus, t0\n\t" EACH_SAVED(RESTORE)
            "addi sp, sp, 36*" R "\n\t"
            "mret");
}

static __attribute__((noipa)) void sys_call(int number)
{
    register long a0 __asm__("a0") = number;
    __asm__ volatile("ecall" : "+r"(a0)::"memory");
}

static void up_initial_state(struct tcb_s *tcb, void (*start)(void))
{
    uintptr_t *regs = (uintptr_t *)((char *)tcb->stack_base_ptr + tcb->adj_stack_size) - REGS;
    for (int word = 0; word < REGS; word++)
        regs[word] = 0;
    regs[REG_EPC] = (uintptr_t)start;
    regs[REG_SP] = (uintptr_t)(regs + REGS);
    __asm__ volatile("mv %0, gp" : "=r"(regs[REG_GP]));
    regs[REG_INT_CTX] = MPP_AND_MPIE;
    tcb->xcp.regs = regs;
}

static void up_irq_mask(void) { irq_disable(); }
static void up_irq_unmask(void) { irq_enable(); }

static void up_initialize(void)
{
    __asm__ volatile("csrw mtvec, %0" ::"r"(exception_common));
}

#define START_ON(stack, start) __asm__ volatile("mv sp, %0\n\tli ra, 0\n\tj " #start ::"r"(stack) : "memory")
#else
enum { SVCALL = 11, REG_R13 = 0, REG_EXC_RETURN = 11, REG_R0 = 12, REG_PC = 18, REG_XPSR = 19, REGS = 20 };
#define SHPR2 (*(volatile uint32_t *)0xe000ed1cu)
#define SHPR3 (*(volatile uint32_t *)0xe000ed20u)

static void tick(void);

__attribute__((used, noipa)) uintptr_t *arm_doirq(int irq, uintptr_t *regs)
{
    if (irq != SVCALL)
        return do_irq(0, tick, regs);
    return do_irq(regs[REG_R0] == SYS_restore_context, dispatch_nothing, regs);
}

__attribute__((naked)) void exception_common(void)
{
    __asm__("mrs r0, ipsr\n\t"
            "mrs r1, psp\n\t"
            "add r2, r1, #32\n\t"
            "mrs r3, basepri\n\t"
            "mrs r12, control\n\t"
            "stmdb r1!, {r2-r12, lr}\n\t"
            "bl arm_doirq\n\t"
            "ldmia r0!, {r2-r12, lr}\n\t"
            "msr basepri, r3\n\t"
            "msr psp, r0\n\t"
            "bx lr");
}
void SVC_Handler(void) __attribute__((alias("exception_common")));
void SysTick_Handler(void) __attribute__((alias("exception_common")));

static __attribute__((noipa)) void sys_call(int number)
{
    register int r0 __asm__("r0") = number;
    __asm__ volatile("svc 0" : "+r"(r0)::"memory");
}

static void up_initial_state(struct tcb_s *tcb, void (*start)(void))
{
    uintptr_t *regs = (uintptr_t *)((char *)tcb->stack_base_ptr + tcb->adj_stack_size) - REGS;
    for (int word = 0; word < REGS; word++)
        regs[word] = 0;
    regs[REG_R13] = (uintptr_t)(regs + REGS);
    regs[REG_EXC_RETURN] = 0xfffffffd;
    regs[REG_PC] = (uintptr_t)start & ~(uintptr_t)1;
    regs[REG_XPSR] = 1u << 24;
    tcb->xcp.regs = regs;
}

static void up_initialize(void)
{
    SHPR2 |= 0x40u << 24;
    SHPR3 |= 0xc0u << 24;
    irq_enable();
}

/* Calls of the supervisor stay possible. */
static void up_irq_mask(void) { __asm__ volatile("msr basepri, %0" ::"r"(0x80) : "memory"); }
static void up_irq_unmask(void) { __asm__ volatile("msr basepri, %0" ::"r"(0) : "memory"); }

#define START_ON(stack, start)                                                                                        \
    __asm__ volatile("msr psp, %0\n\tmovs r0, #2\n\tmsr control, r0\n\tisb\n\tmov lr, #0\n\tb " #start ::"r"(stack)   \
                     : "r0", "lr", "memory")
#endif

static void tick(void)
{
    for (int task = 1; task < TASKS; task++)
        if (tcbs[task].task_state == TSTATE_SLEEPING)
            tcbs[task].task_state = TSTATE_TASK_READYTORUN;
}
#ifdef __riscv
void TIMER_HANDLER(void) { tick(); }
#endif

static void up_switch_context(int state)
{
    up_irq_mask();
    g_running_tasks[0]->task_state = (uint8_t)state;
    sys_call(SYS_switch_context);
    up_irq_unmask();
}

__attribute__((noipa)) void nxsched_release_tcb(struct tcb_s *tcb)
{
    tcb->task_state = TSTATE_TASK_INVALID;
}

__attribute__((noipa)) void up_exit(void)
{
    up_irq_mask();
    nxsched_release_tcb(g_running_tasks[0]);
    struct tcb_s *next = this_task();
    note_switch(next);
    g_running_tasks[0] = next;
    sys_call(SYS_restore_context);
    __builtin_trap();
}

__attribute__((noipa)) void nxtask_start(void)
{
    up_irq_unmask();
    struct tcb_s *tcb = g_running_tasks[0];
    tcb->entry(tcb->pid);
    up_exit();
    board_exit(2);
}

static struct tcb_s *nxtask_init(int index, int pid, const char *name, void (*entry)(int))
{
    struct tcb_s *tcb = &tcbs[index];
    char *stack = stacks[index];
    *tcb = (struct tcb_s){ .pid = pid, .entry = entry, .stack_alloc_ptr = stack, .stack_base_ptr = stack,
                           .adj_stack_size = STACK_BYTES };
    for (int at = 0; at < STACK_BYTES; at += 4)
        *(uint32_t *)(stack + at) = 0xdeadbeef;
    for (int at = 0; name[at]; at++)
        tcb->name[at] = name[at];
    return tcb;
}

static void task_create(int index, int pid, const char *name, void (*entry)(int))
{
    struct tcb_s *tcb = nxtask_init(index, pid, name, entry);
    up_initial_state(tcb, nxtask_start);
    tcb->task_state = TSTATE_TASK_READYTORUN;
}

/* Memory is never given out again: each of these takes the next piece. */
__attribute__((noipa)) void *mm_malloc(void *heap, size_t size)
{
    static char arena[4096] __attribute__((aligned(16)));
    static size_t used;
    up_irq_mask();
    char *piece = heap == tcbs ? arena + used : 0;
    used += (size + 15) & ~(size_t)15;
    up_irq_unmask();
    return piece;
}

__attribute__((noipa)) void mm_free(void *heap, void *memory) { __asm__ volatile("" ::"r"(heap), "r"(memory)); }
__attribute__((noipa)) void *mm_memalign(void *heap, size_t alignment, size_t size) { return alignment <= 16 ? mm_malloc(heap, size) : 0; }
__attribute__((noipa)) void *mm_realloc(void *heap, void *memory, size_t size)
{
    void *larger = mm_malloc(heap, size);
    mm_free(heap, memory);
    return larger;
}
__attribute__((noipa)) void *kmm_malloc(size_t size) { return mm_malloc(tcbs, size); }
__attribute__((noipa)) void *kmm_zalloc(size_t size) { return mm_malloc(tcbs, size); }
__attribute__((noipa)) void *kmm_calloc(size_t count, size_t size) { return mm_malloc(tcbs, count * size); }
__attribute__((noipa)) void *kmm_realloc(void *memory, size_t size) { return mm_realloc(tcbs, memory, size); }
__attribute__((noipa)) void *kmm_memalign(size_t alignment, size_t size) { return mm_memalign(tcbs, alignment, size); }
__attribute__((noipa)) void kmm_free(void *memory) { mm_free(tcbs, memory); }

static __attribute__((noipa)) uint32_t dig(uint32_t depth, uint32_t x)
{
    for (uint32_t turn = 0; turn < 60; turn++)
        x = mix(x, turn);
    return depth ? dig(depth - 1, x) + 1 : x;
}

static __attribute__((noipa)) void takes_turns(int pid)
{
    void *kept = kmm_malloc(40 * (size_t)pid);
    kmm_free(kmm_zalloc(8));
    kmm_free(kmm_calloc(3, 8));
    sum += kept != 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ZONE_BEGIN("turn");
        sum += dig((uint32_t)pid, round);
        ZONE_END("turn");
        up_switch_context(TSTATE_TASK_READYTORUN);
    }
}

static __attribute__((noipa)) void sleeps(int pid)
{
    kmm_free(kmm_realloc(kmm_memalign(16, 100), 120));
    for (uint32_t turn = 0; turn < SLEEPS; turn++) {
        ZONE_BEGIN("sleeps");
        up_switch_context(TSTATE_SLEEPING);
        ZONE_END("sleeps");
        for (uint32_t part = 0; part < 3; part++) {
            sum += dig((uint32_t)pid - part, turn);
            up_switch_context(TSTATE_TASK_READYTORUN);
        }
    }
}

static __attribute__((noipa)) void init_main(int pid)
{
    (void)pid;
    task_create(2, 2, "first", takes_turns);
    task_create(3, 4, "sleeper", sleeps);
    while (tcbs[2].task_state)
        up_switch_context(TSTATE_SLEEPING);
    task_create(2, 3, "second", takes_turns);
    while (tcbs[2].task_state || tcbs[3].task_state)
        up_switch_context(TSTATE_SLEEPING);
    timer_stop();
    print("nuttx: idle %u, init %u, first %u, second %u, sleeper %u\n", switched_in[0], switched_in[1], switched_in[2],
          switched_in[3], switched_in[4]);
    board_exit(0);
}

__attribute__((noipa)) void up_idle(void)
{
    wait_for_interrupt();
}

/* Part of nx_start, or inlined into it, as the compiler likes. */
static __attribute__((noinline)) void idle_task_initialize(void)
{
    g_running_tasks[0] = &tcbs[0];
    note_switch(&tcbs[0]);
}

__attribute__((used, noipa)) _Noreturn void nx_start(void)
{
    static struct tcb_s *all[TASKS] = { &tcbs[0], &tcbs[1], &tcbs[2], &tcbs[3] };
    g_pidhash = all;
    g_npidhash = TASKS;
    idle_task_initialize();
    up_initialize();
    task_create(1, 1, "init", init_main);
    timer_start(1000);
    up_switch_context(TSTATE_TASK_READYTORUN);
    for (;;)
        up_idle();
}

int main(void)
{
    (void)g_tcbinfo.name_off;
    irq_disable();
    nxtask_init(0, 0, "Idle_Task", 0);
    START_ON(stacks[0] + STACK_BYTES, nx_start);
    __builtin_unreachable();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
