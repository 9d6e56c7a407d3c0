/* Test cases in structures with the names of Zephyr's ztest, run as ztest does: each in a thread of its own, which
   begins with test_cb, while the main thread waits. Threads are switched by PendSV on Arm, by a call on RISC-V
   (CONFIG_USE_SWITCH). A case may wait for a worker thread, and a case that fails ends its thread without a return. The
   timer interrupts some of them. UNIT_TEST: the structures of the tests before Zephyr 3.2. */
#include <stddef.h>

#include "board.h"
#include "text.h"
#include "work.h"

enum { STACK_BYTES = 2048, DEAD = 8, PENDING = 2 };

struct _callee_saved {
    uintptr_t sp;
};
struct _thread_stack_info {
    uintptr_t start;
    size_t size, delta;
};
struct k_thread {
    struct {
        uint8_t user_options, thread_state;
        int8_t prio;
    } base;
    struct _callee_saved callee_saved;
    char name[32];
    struct _thread_stack_info stack_info;
    struct k_thread *joining;
};
struct _cpu {
    uint32_t nested;
    char *irq_stack;
    struct k_thread *current, *idle_thread;
};
struct z_kernel {
    struct _cpu cpus[1];
};
volatile struct z_kernel _kernel;

typedef void (*k_thread_entry_t)(void *, void *, void *);

static struct k_thread z_main_thread, ztest_thread, worker_thread;
static char stacks[3][STACK_BYTES] __attribute__((aligned(16)));

#ifdef __riscv
#if __riscv_xlen == 64
#define STORE "sd"
#define LOAD "ld"
#define AT(n) "8*" #n "(sp)"
#define FRAME_BYTES "112"
#else
#define STORE "sw"
#define LOAD "lw"
#define AT(n) "4*" #n "(sp)"
#define FRAME_BYTES "64"
#endif
#define EACH(insn)                                                                                                     \
    insn " ra, " AT(0) "\n\t" insn " s0, " AT(1) "\n\t" insn " s1, " AT(2) "\n\t" insn " s2, " AT(3) "\n\t" insn       \
         " s3, " AT(4) "\n\t" insn " s4, " AT(5) "\n\t" insn " s5, " AT(6) "\n\t" insn " s6, " AT(7) "\n\t" insn       \
         " s7, " AT(8) "\n\t" insn " s8, " AT(9) "\n\t" insn " s9, " AT(10) "\n\t" insn " s10, " AT(11) "\n\t" insn    \
         " s11, " AT(12) "\n\t"
enum { FRAME_WORDS = sizeof(void *) == 8 ? 14 : 16, RETURN = 0, ENTRY = 1 };

__attribute__((naked)) static void arch_switch(uintptr_t to __attribute__((unused)),
                                              uintptr_t *from __attribute__((unused)))
{
    __asm__("addi sp, sp, -" FRAME_BYTES "\n\t" EACH(STORE) STORE " sp, 0(a1)\n\t"
            "mv sp, a0\n\t" EACH(LOAD) "addi sp, sp, " FRAME_BYTES "\n\t"
            "ret");
}

__attribute__((naked)) static void z_thread_start(void)
{
    __asm__("mv a0, s0\n\t"
            "mv a1, s1\n\t"
            "mv a2, s2\n\t"
            "mv a3, s3\n\t"
            "li ra, 0\n\t"
            "j z_thread_entry");
}

/* Switches to a thread: the running one is what _kernel names. */
__attribute__((noipa)) static void do_swap(struct k_thread *to)
{
    struct k_thread *from = _kernel.cpus[0].current;
    _kernel.cpus[0].current = to;
    arch_switch(to->callee_saved.sp, &from->callee_saved.sp);
}
#else
#define ICSR (*(volatile uint32_t *)0xe000ed04u)
#define SHPR3 (*(volatile uint32_t *)0xe000ed20u)
enum { PENDSVSET = 1 << 28, FRAME_WORDS = 16, RETURN = 14, ENTRY = 8 };

_Noreturn void z_thread_entry(k_thread_entry_t entry, void *p1, void *p2, void *p3);
#define z_thread_start z_thread_entry

static struct k_thread *volatile next_thread;

__attribute__((naked)) void z_arm_pendsv(void)
{
    __asm__("ldr r1, =_kernel\n\t"
            "ldr r2, [r1, %0]\n\t"
            "mrs r0, psp\n\t"
            "stmdb r0!, {r4-r11}\n\t"
            "str r0, [r2, %1]\n\t"
            "ldr r3, =next_thread\n\t"
            "ldr r2, [r3]\n\t"
            "str r2, [r1, %0]\n\t"
            "ldr r0, [r2, %1]\n\t"
            "ldmia r0!, {r4-r11}\n\t"
            "msr psp, r0\n\t"
            "bx lr\n\t"
            ".ltorg"
            :
            : "i"(offsetof(struct z_kernel, cpus[0].current)), "i"(offsetof(struct k_thread, callee_saved.sp)));
}
void PendSV_Handler(void) __attribute__((alias("z_arm_pendsv")));

__attribute__((noipa)) static void do_swap(struct k_thread *to)
{
    next_thread = to;
    ICSR = PENDSVSET;
    __asm__ volatile("isb" ::: "memory");
}
#endif

static __attribute__((noipa)) void z_impl_k_thread_abort(struct k_thread *thread)
{
    thread->base.thread_state = DEAD;
    if (thread == _kernel.cpus[0].current)
        do_swap(thread->joining);
}

_Noreturn __attribute__((noipa, used)) void z_thread_entry(k_thread_entry_t entry, void *p1, void *p2, void *p3)
{
    entry(p1, p2, p3);
    z_impl_k_thread_abort(_kernel.cpus[0].current);
    board_exit(2);
}

static void k_thread_create(struct k_thread *thread, char *stack, k_thread_entry_t entry, const void *p1,
                            const void *p2, void *p3)
{
    for (int byte = 0; byte < STACK_BYTES; byte++)
        stack[byte] = (char)0xaa;
    uintptr_t *frame = (uintptr_t *)(stack + STACK_BYTES) - FRAME_WORDS;
#ifndef __riscv
    frame[RETURN + 1] = 1u << 24;
#endif
    frame[RETURN] = (uintptr_t)z_thread_start;
    frame[ENTRY] = (uintptr_t)entry;
    frame[ENTRY + 1] = (uintptr_t)p1;
    frame[ENTRY + 2] = (uintptr_t)p2;
    frame[ENTRY + 3] = (uintptr_t)p3;
    thread->callee_saved.sp = (uintptr_t)frame;
    thread->stack_info = (struct _thread_stack_info){ (uintptr_t)stack, STACK_BYTES, 0 };
    thread->base.thread_state = 0;
}

/* Runs a thread until it has ended. */
static void k_thread_join(struct k_thread *thread)
{
    thread->joining = _kernel.cpus[0].current;
    do_swap(thread);
}

/* ---- ztest ---- */

struct ztest_suite_node {
    const char *name;
    void (*before)(void *);
};
#ifdef UNIT_TEST
struct unit_test {
    const char *name;
    void (*setup)(void), (*test)(void), (*teardown)(void);
};
#define TEST(suite, title, function) { #title, 0, function, 0 }
#define unit unit_test
#else
struct ztest_unit_test {
    const char *const test_suite_name, *const name;
    void (*test)(void);
    uint32_t thread_options;
};
#define TEST(suite, title, function) { #suite, #title, function, 0 }
#define unit ztest_unit_test
#endif

static volatile uint32_t results, ticks;
static int test_result;

void TIMER_HANDLER(void) { ticks++; }

static __attribute__((noipa)) void before(void *data)
{
    (void)data;
    results += fib(8);
}

static void worker(void *p1, void *p2, void *p3)
{
    (void)p1, (void)p2, (void)p3;
    results += fib(14);
}

static __attribute__((noipa)) void test_put(void) { results += fib(10); }
static __attribute__((noipa)) void test_order(void)
{
    static int32_t values[64];
    fill(values, 64, 7);
    quick_sort(values, 64);
    results += (uint32_t)is_sorted(values, 64);
}
static __attribute__((noipa)) void test_worker(void)
{
    k_thread_create(&worker_thread, stacks[1], worker, 0, 0, 0);
    k_thread_join(&worker_thread);
}
static __attribute__((noipa)) void test_fails(void)
{
    results += fib(9);
    test_result = -1;
    z_impl_k_thread_abort(&ztest_thread);
}

static const struct ztest_suite_node suites[] = { { "queue", before }, { "list", 0 } };
static const struct unit tests[2][3] = {
    { TEST(queue, test_put, test_put), TEST(queue, test_worker, test_worker), TEST(queue, test_fails, test_fails) },
    { TEST(list, test_put, test_order), TEST(list, test_order, test_order), TEST(list, test_tree, test_worker) },
};

static void test_cb(void *a, void *b, void *c)
{
#ifdef UNIT_TEST
    const struct unit_test *test = a;
    const struct ztest_suite_node *suite = &suites[test >= tests[1]];
    (void)b;
#else
    const struct ztest_suite_node *suite = a;
    const struct ztest_unit_test *test = b;
#endif
    if (suite->before)
        suite->before(c);
    test->test();
    test_result = 0;
}

static void run_test(const struct ztest_suite_node *suite, const struct unit *test)
{
    print("START - %s\n", test->name);
    test_result = 1;
#ifdef UNIT_TEST
    (void)suite;
    k_thread_create(&ztest_thread, stacks[0], test_cb, test, 0, 0);
#else
    k_thread_create(&ztest_thread, stacks[0], test_cb, suite, test, 0);
#endif
    for (int at = 0; at < 32; at++)
        ztest_thread.name[at] = "ztest"[at < 5 ? at : 5];
    k_thread_join(&ztest_thread);
    print(" %s - %s\n", test_result ? "FAIL" : "PASS", test->name);
}

/* Threads have the process stack, as on Zephyr; handlers have one of their own. */
static void use_process_stack(void)
{
#ifndef __riscv
    static char handlers[STACK_BYTES] __attribute__((aligned(8)));
    SHPR3 |= 0xffu << 16;
    __asm__ volatile("mov r1, sp\n\t"
                     "msr psp, r1\n\t"
                     "movs r1, #2\n\t"
                     "msr control, r1\n\t"
                     "isb\n\t"
                     "msr msp, %0"
                     :
                     : "r"(handlers + STACK_BYTES)
                     : "r1", "memory");
#endif
}

static void bg_thread_main(void *p1, void *p2, void *p3)
{
    (void)p1, (void)p2, (void)p3;
    timer_start(1000);
    for (int times = 0; times < 2; times++)
        for (int suite = 0; suite < 2; suite++)
            for (int test = 0; test < 3; test++)
                run_test(&suites[suite], &tests[suite][test]);
    timer_stop();
    print("ztest: %u ticks: %s\n", (unsigned)(ticks > 0), results ? "done" : "?");
    board_exit(0);
}

/* The kernel starts as a dummy thread and goes on as the main thread, on that one's own stack. */
_Noreturn static __attribute__((noipa, used)) void z_cstart(void)
{
    static struct k_thread dummy;
    _kernel.cpus[0].current = &dummy;
    k_thread_create(&z_main_thread, stacks[2], bg_thread_main, 0, 0, 0);
    for (int at = 0; at < 4; at++)
        z_main_thread.name[at] = "main"[at];
    do_swap(&z_main_thread);
    board_exit(2);
}

int main(void)
{
    use_process_stack();
    z_cstart();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
