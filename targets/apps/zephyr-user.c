/* Threads without privileges, which call the kernel: it works for them on their second stacks (zephyr-user-arm.S). One thread
   starts with privileges and gives them up, the other has none from its start; the second stack of one is above its own,
   that of the other below. The timer takes the processor from them anywhere, main and the idle thread run between. */
#define OWN_THREADS
#define USER_MODE
#include "zephyr.c"

enum { EAT, YIELD, LEAVE, COUNT_CALLS };

_Static_assert(offsetof(struct k_thread, stack_info.start) == 76 && offsetof(struct _cpu, current) == 8, "zephyr-user-arm.S");

_Noreturn void z_arm_userspace_enter(k_thread_entry_t entry, void *p1, void *p2, void *p3);

static volatile uint32_t regions, calls[THREADS];

static __attribute__((noipa)) uint32_t z_mrsh_eat(uint32_t x)
{
    calls[EAT]++;
    return dine(1, x) + 1;
}

static __attribute__((noipa)) uint32_t z_mrsh_yield(uint32_t x)
{
    calls[YIELD]++;
    z_swap(0);
    return x;
}

static __attribute__((noipa)) uint32_t z_mrsh_leave(uint32_t x)
{
    calls[LEAVE]++;
    z_impl_k_thread_abort(_kernel.cpus[0].current);
    return x;
}

static __attribute__((noipa)) uint32_t z_mrsh_count_calls(uint32_t x)
{
    return calls[x];
}

uint32_t (*const _k_syscall_table[])(uint32_t) = { z_mrsh_eat, z_mrsh_yield, z_mrsh_leave, z_mrsh_count_calls };

/* The kernel's part of giving up privileges, on the second stack. */
__attribute__((noipa, used)) void z_arm_configure_dynamic_mpu_regions(struct k_thread *thread)
{
    for (uint32_t turn = 0; turn < 40; turn++)
        regions = mix(regions, thread->arch.mode + turn);
}

static inline uint32_t arch_syscall_invoke1(uint32_t arg1, uint32_t call_id)
{
    register uint32_t r0 __asm__("r0") = arg1;
    register uint32_t r6 __asm__("r6") = call_id;
    __asm__ volatile("svc 3" : "+r"(r0), "+r"(r6) : : "r1", "r2", "r3", "r8", "r12", "memory", "cc");
    return r0;
}

/* Its return address stays in lr while the kernel works. */
static __attribute__((noipa)) uint32_t eat(uint32_t x) { return arch_syscall_invoke1(x, EAT) + 1; }

static __attribute__((noipa)) uint32_t eat_all(uint32_t depth, uint32_t x)
{
    for (uint32_t turn = 0; turn < 20; turn++)
        x = mix(x, turn);
    x = depth ? eat_all(depth - 1, x) : eat(x);
    return arch_syscall_invoke1(x, YIELD) + depth;
}

static void user(void *number, void *p2, void *p3)
{
    (void)p2, (void)p3;
    for (uint32_t round = 0; round < ROUNDS; round++)
        sums[(uintptr_t)number] += eat_all(2, round) + arch_syscall_invoke1(EAT, COUNT_CALLS);
    arch_syscall_invoke1(0, LEAVE);
}

static _Noreturn __attribute__((noipa)) void arch_user_mode_enter(k_thread_entry_t entry, void *p1, void *p2, void *p3)
{
    regions = 0;
    z_arm_userspace_enter(entry, p1, p2, p3);
}

static __attribute__((noipa)) void philosopher(void *number, void *p2, void *p3)
{
    sums[0] += dine(1, 1);
    arch_user_mode_enter(user, number, p2, p3);
}

/* A switch that is asked for already is left alone. */
void TIMER_HANDLER(void)
{
    ticks++;
    if (ICSR & PENDSVSET)
        return;
    if (z_main_thread.base.thread_state == PENDING)
        z_main_thread.base.thread_state = 0;
    struct k_thread *current = _kernel.cpus[0].current;
    if (current == &z_main_thread)
        return;
    _kernel.ready_q.cache = chosen();
    if (_kernel.ready_q.cache != current)
        ICSR = PENDSVSET;
}

static __attribute__((noipa)) void bg_thread_main(void *p1, void *p2, void *p3)
{
    (void)p1, (void)p2, (void)p3;
    philosophers[0].arch.priv_stack_start = (uint32_t)stacks[1 + THREADS];
    /* The kernel's start has left it. */
    philosophers[1].arch.priv_stack_start = (uint32_t)stacks[0];
    ((uint32_t *)philosophers[1].callee_saved.psp)[0] = (uint32_t)user;
    ((uint32_t *)philosophers[1].callee_saved.psp)[6] = (uint32_t)arch_user_mode_enter;
    while (!(philosophers[0].base.thread_state & philosophers[1].base.thread_state & DEAD))
        z_swap(PENDING);
    z_swap(PENDING);
    timer_stop();
    print("zephyr-user: main %u, first %u, second %u, idle %u\n", (unsigned)z_main_thread.switched_in,
          (unsigned)philosophers[0].switched_in, (unsigned)philosophers[1].switched_in, (unsigned)z_idle_thread.switched_in);
    print("calls: eat %u, yield %u, leave %u\n", (unsigned)calls[EAT], (unsigned)calls[YIELD], (unsigned)calls[LEAVE]);
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
