/* Zones and marks (zone/zone.h) on two CPUs, which run the same functions and have interrupts of their own. The numbers
   that harness/tests/run/zones_cpus.rs knows:

       exactly     CALLS + n * CALLS times 1 + 40 instructions on CPU n, and within it inner, 1 + 20
       filter      of both, ROUNDS + n * ROUNDS times on CPU n, besides those in interrupts
       tick        of each CPU's interrupt
       handed      begun by CPU 0, ended by CPU 1
       whole       begun by both, never ended                                                                      */
#include "board.h"
#include "cpus.h"
#include "text.h"
#include "work.h"
#include "zone.h"

enum { CALLS = 50, ROUNDS = 300, HZ = 4000 };

static volatile uint32_t go, answered, ticks[2], in_ticks[2], sums[2];

#define NOPS(count) __asm__ volatile(".rept " #count "\nnop\n.endr")

static __attribute__((noipa)) void exactly(void)
{
    ZONE_BEGIN("exactly");
    NOPS(15);
    ZONE_BEGIN("inner");
    NOPS(20);
    ZONE_END("inner");
    NOPS(3);
    ZONE_END("exactly");
}

__attribute__((noipa)) uint32_t filter(uint32_t x, uint32_t turns)
{
    ZONE("filter");
    for (uint32_t i = 0; i < turns; i++)
        x = mix(x, i);
    return x;
}

__attribute__((noipa)) void from_here(void) { ZONE_BEGIN("stretch"); }
__attribute__((noipa)) void until_here(void) { ZONE_END("stretch"); }

static __attribute__((noipa)) void tick_work(uint32_t cpu)
{
    ZONE("tick");
    in_ticks[cpu] = filter(in_ticks[cpu], 20 + (ticks[cpu] & 7));
}

#ifdef __riscv
/* The port's timer is hart 0's alone, which passes it on. */
#define MSIP ((volatile uint32_t *)(uintptr_t)0x02000000)
enum { MIE_MSIE = 1 << 3, CAUSE_MSOFT = 3 };
void TIMER_HANDLER(void)
{
    ticks[0]++;
    tick_work(0);
    MSIP[1] = 1;
}
uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc);
uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    if ((cause & 0xff) != CAUSE_MSOFT || this_cpu() != 1)
        board_exit(1);
    MSIP[1] = 0;
    ticks[1]++;
    tick_work(1);
    return pc;
}
static void start_ticks(unsigned cpu)
{
    if (cpu == 0)
        timer_start(HZ);
    __asm__ volatile("csrs mie, %0" ::"r"(MIE_MSIE));
    irq_enable();
}
static void stop_ticks(void)
{
    timer_stop();
    irq_disable();
}
#else
void TIMER_HANDLER(void)
{
    unsigned cpu = this_cpu();
    ticks[cpu]++;
    tick_work(cpu);
}
static void start_ticks(unsigned cpu) { timer_start(cpu ? HZ * 2 : HZ); }
static void stop_ticks(void) { timer_stop(); }
#endif

static __attribute__((noipa)) void wait_for(volatile uint32_t *flag)
{
    while (!*flag)
        ;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static __attribute__((noipa)) uint32_t work_of(unsigned cpu)
{
    uint32_t x = cpu + 1;
    ZONE_BEGIN("whole");
    start_ticks(cpu);
    for (uint32_t i = 0; i < ROUNDS + cpu * ROUNDS; i++) {
        x = filter(x, 100);
        from_here();
        x = filter(x, i & 31);
        until_here();
        MARK("turns", i);
    }
    stop_ticks();
    for (uint32_t i = 0; i < CALLS + cpu * CALLS; i++)
        exactly();
    return x;
}

void secondary_main(uintptr_t cpu)
{
    if (cpu != 1)
        return;
    wait_for(&go);
    ZONE_END("handed");
    sums[1] = work_of(1);
    __atomic_store_n(&answered, 1, __ATOMIC_RELEASE);
}

int main(void)
{
    start_other_cpu();
    PHASE("both");
    ZONE_BEGIN("handed");
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    sums[0] = work_of(0);
    wait_for(&answered);
    PHASE("one");
    print("zones of two CPUs: ticks %u %u, sums %08x %08x\n", (unsigned)ticks[0], (unsigned)ticks[1], (unsigned)sums[0],
          (unsigned)sums[1]);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
