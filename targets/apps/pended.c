/* Interrupts in interrupts by what every processor has: on Cortex-M NMI over SysTick over PendSV over SVC, each
   pended by software in the middle of another, and a fault whose instruction is skipped; on RISC-V the port's
   trap_entry, a vectored table, and an entry that changes to a stack of its own. The same on each stack, on
   stacks that are not aligned, with frames that are aligned and that are not, with lazily stacked floating point
   and without. `x` is worked out by main alone, and so does not depend on when the interrupts came. */
#include "board.h"
#include "text.h"
#include "work.h"

#define NOIPA __attribute__((noipa))
enum { ROUNDS = 60, DEPTH = 4 };

#ifdef __ARM_FP
typedef float number; /* small integers: exact */
#else
typedef int32_t number;
#endif

static volatile uint32_t ticks, traps, nesting, deepest;
static volatile number handled;
static uint32_t seed = 1, checksum;

static NOIPA number step(number x)
{
    number y = x, z = 1;
    for (int i = 0; i < 10; i++) {
        y += z;
        z += y > 1000 ? -3 : 2;
        y -= y > 1000 ? 997 : 0;
    }
    return y;
}
static NOIPA number helper(uint32_t depth, number x)
{
    number before = step(x);
    return (depth ? helper(depth - 1, before) : before) + before - x;
}
static NOIPA number bounded(uint32_t depth, number x)
{
    x = helper(depth, x);
    while (x > 1000 || x < 0)
        x = x < 0 ? x + 500 : x - 777;
    return x;
}
static NOIPA void enters(void) { if (++nesting > deepest) deepest = nesting; }
static NOIPA void leaves(void) { nesting--; }
static NOIPA void rearm(void)
{
    uint32_t random = xorshift(&seed);
#ifdef __riscv
    timer_once(random & 3 ? 300 + (random >> 8 & 255) : 15); /* in the middle of the handler, now and then */
#else
    timer_once(2000 + (random >> 8 & 2047));
#endif
}

typedef number body(uint32_t rounds, number x);

#ifndef __riscv

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define ICSR REGISTER(0xe000ed04)
#define CCR REGISTER(0xe000ed14)
#define SHPR2 REGISTER(0xe000ed1c)
#define SHPR3 REGISTER(0xe000ed20)
#define FPCCR REGISTER(0xe000ef34)
enum { NMI = 1u << 31, PENDSV = 1 << 28, SYSTICK = 1 << 26, STKALIGN = 1 << 9, LSPEN = 1 << 30 };

void SVC_Handler(void)
{
    enters();
    handled = bounded(2, handled);
    ICSR = PENDSV; /* at once, or afterwards without going back: as the phase's priorities are */
    handled = bounded(1, handled);
    leaves();
}
void PendSV_Handler(void)
{
    enters();
    handled = bounded(3, handled);
    ICSR = SYSTICK;
    __asm__ volatile("isb");
    handled = bounded(1, handled);
    leaves();
}
void SysTick_Handler(void)
{
    enters();
    ticks++;
    rearm();
    ICSR = NMI;
    handled = bounded(2, handled);
    leaves();
}
void NMI_Handler(void)
{
    enters();
    handled = bounded(4, handled);
    leaves();
}
/* The stacked pc is behind an `udf`, of 2 bytes: it goes on there. */
__attribute__((used)) static NOIPA void skip(uint32_t *frame)
{
    enters();
    traps++;
    handled = bounded(2, handled);
    frame[6] += 2;
    leaves();
}
__attribute__((naked)) void HardFault_Handler(void)
{
    __asm__(".syntax unified\n\tmovs r0, #4\n\tmov r1, lr\n\ttst r0, r1\n\tbne 1f\n\tmrs r0, msp\n\tb 2f\n1:\tmrs r0, psp\n"
            "2:\tpush {r3, lr}\n\tbl skip\n\tpop {r3, pc}");
}

static NOIPA void trap_one(void) { __asm__ volatile("svc 0" ::: "memory"); }
static NOIPA void trap_two(void) { __asm__ volatile("udf #0" ::: "memory"); }

/* Calls `next` with sp at an odd multiple of four. */
number misaligned(uint32_t rounds, number x, body *next);
__asm__(".syntax unified\n.thumb\n.text\n.globl misaligned\n.type misaligned,%function\nmisaligned:\n"
        "push {r4, r5, r6, lr}\nsub sp, #4\n"
#ifdef __ARM_FP
        "blx r1\n" /* hard float: x is in s0 */
#else
        "blx r2\n"
#endif
        "add sp, #4\npop {r4, r5, r6, pc}\n.size misaligned, . - misaligned\n");

#else

static void (*volatile entered)(void);
#define CLEAR_MIE "csrci mstatus, 8"
#define SET_MIE "csrsi mstatus, 8"

/* Lets the timer in while a handler works: what a second trap overwrites is kept here. */
static NOIPA void works_interruptibly(uint32_t depth)
{
    uintptr_t epc, cause, status;
    __asm__ volatile("csrr %0, mepc\n\tcsrr %1, mcause\n\tcsrr %2, mstatus" : "=r"(epc), "=r"(cause), "=r"(status));
    if (nesting < DEPTH)
        __asm__ volatile(SET_MIE ::: "memory");
    handled = bounded(depth, handled);
    __asm__ volatile(CLEAR_MIE ::: "memory");
    __asm__ volatile("csrw mepc, %0\n\tcsrw mcause, %1\n\tcsrw mstatus, %2" ::"r"(epc), "r"(cause), "r"(status));
}
void TIMER_HANDLER(void)
{
    enters();
    ticks++;
    rearm();
    works_interruptibly(3);
    leaves();
}
uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    enters();
    traps++;
    works_interruptibly((uint32_t)cause & 3);
    leaves();
    return pc + 4;
}

/* Straight into C, through a vectored table. */
__attribute__((interrupt, used)) static void timer_vector(void) { TIMER_HANDLER(); }
__attribute__((interrupt, used)) static void exception_vector(void)
{
    uintptr_t cause, pc;
    __asm__ volatile("csrr %0, mcause\n\tcsrr %1, mepc" : "=r"(cause), "=r"(pc));
    pc = Exception_Handler(cause, pc);
    __asm__ volatile("csrw mepc, %0" ::"r"(pc));
}
/* Calls nothing, and so saves little. */
__attribute__((interrupt, used)) static void software_vector(void)
{
    *(volatile uint32_t *)0x02000000 = 0;
    for (int i = 0; i < 20; i++)
        handled += i & 1 ? 1 : (number)-1;
}
void vector_table(void), own_stack_entry(void), trap_entry(void);
#if __riscv_xlen == 64
#define S "sd "
#define L "ld "
#define N "8"
#else
#define S "sw "
#define L "lw "
#define N "4"
#endif
#define ALL(op)                                                                                                   \
    op "ra, 0*" N "(sp)\n" op "t1, 2*" N "(sp)\n" op "t2, 3*" N "(sp)\n" op "a0, 4*" N "(sp)\n"                   \
    op "a1, 5*" N "(sp)\n" op "a2, 6*" N "(sp)\n" op "a3, 7*" N "(sp)\n" op "a4, 8*" N "(sp)\n"                   \
    op "a5, 9*" N "(sp)\n" op "a6, 10*" N "(sp)\n" op "a7, 11*" N "(sp)\n" op "t3, 12*" N "(sp)\n"                \
    op "t4, 13*" N "(sp)\n" op "t5, 14*" N "(sp)\n" op "t6, 15*" N "(sp)\n"
static uint64_t own_stack[512] __attribute__((aligned(16), used));
uintptr_t trap(uintptr_t cause, uintptr_t pc);
/* own_stack_entry: mscratch holds the handlers' stack, or 0 in a handler, which then stays on it. */
__asm__(".text\n.balign 256\n.globl vector_table\n.type vector_table,%function\nvector_table:\n.option push\n"
        ".option norvc\nj exception_vector\nj vector_table\nj vector_table\nj software_vector\nj vector_table\n"
        "j vector_table\nj vector_table\nj timer_vector\n.option pop\n.size vector_table, . - vector_table\n"
        ".balign 4\n.globl own_stack_entry\n.type own_stack_entry,%function\nown_stack_entry:\n"
        "csrrw sp, mscratch, sp\nbnez sp, 1f\ncsrr sp, mscratch\n"
        "1: addi sp, sp, -18*" N "\n" S "t0, 1*" N "(sp)\n" ALL(S)
        "csrrw t0, mscratch, zero\n" S "t0, 16*" N "(sp)\n"
        "csrr a0, mcause\ncsrr a1, mepc\ncall trap\ncsrw mepc, a0\n"
        /* From a handler: its sp is this frame's end, and mscratch stays 0. */
        L "t0, 16*" N "(sp)\naddi t1, sp, 18*" N "\nbeq t0, t1, 2f\ncsrw mscratch, t1\n"
        ALL(L) L "t0, 16*" N "(sp)\nmv sp, t0\ncsrr t0, mscratch\naddi t0, t0, -18*" N "\n" L "t0, 1*" N "(t0)\nmret\n"
        "2: " ALL(L) L "t0, 1*" N "(sp)\naddi sp, sp, 18*" N "\nmret\n.size own_stack_entry, . - own_stack_entry\n");

static NOIPA void trap_one(void) { __asm__ volatile("ecall" ::: "memory"); }
static NOIPA void trap_two(void) { __asm__ volatile(".word 0xc0001073" ::: "memory"); } /* unimp */

#endif

static NOIPA number below(uint32_t depth, number x)
{
    number y = x + 1;
    x = step(x);
    if (depth)
        x = below(depth - 1, x);
    else
        trap_one();
    if (depth & 1)
        trap_two();
    return bounded(1, x) + y;
}
static NOIPA number works(uint32_t rounds, number x)
{
    for (uint32_t round = 0; round < rounds; round++) {
        x = bounded(round & 7, x);
        x = bounded(0, below(round & 3, x));
        checksum = mix(checksum, (uint32_t)(int32_t)x);
        x += (number)(checksum & 63);
    }
    return x;
}

static NOIPA void phase(const char *name, number x) { print("%12s: %u, %08x\n", name, (unsigned)x, (unsigned)checksum); }

static NOIPA __attribute__((noreturn)) void finish(void)
{
    timer_stop();
    print("pended: %s\n", ticks > 20 && traps && !nesting && deepest >= 3 ? "ok" : "bad");
    board_exit(0);
}

#ifndef __riscv
/* On the process stack (CONTROL.SPSEL): its first function, which nobody called. */
static uint64_t process_stack[256];
static number carried;
__attribute__((used, noreturn)) static NOIPA void process(void)
{
    number x = works(ROUNDS, carried);
    phase("process", misaligned(ROUNDS, x, works));
    finish();
}
_Noreturn void start_process(void *stack);
__asm__(".syntax unified\n.thumb\n.text\n.globl start_process\n.type start_process,%function\nstart_process:\n"
        "msr psp, r0\nmovs r0, #2\nmsr control, r0\nisb\nmovs r0, #0\nmov lr, r0\nb process\n"
        ".size start_process, . - start_process\n");
#endif

int main(void)
{
    number x = 1;
    rearm();
#ifndef __riscv
    irq_enable();
    SHPR2 = 0xc0000000; /* SVC */
    SHPR3 = 0x00c00000; /* SysTick over all, PendSV as SVC: one after the other */
    phase("tail-chained", x = works(ROUNDS, x));
    SHPR3 = 0x40800000; /* SysTick over PendSV over SVC */
    phase("nested", x = works(ROUNDS, x));
    phase("misaligned", x = misaligned(ROUNDS, x, works));
#ifdef __ARM_FP
    FPCCR &= ~(uint32_t)LSPEN;
    phase("not lazy", x = misaligned(ROUNDS, works(ROUNDS, x), works));
    FPCCR |= LSPEN;
#else
    /* Frames without padding; M0 always pads. Not with an FPU, which aligns its frames (but QEMU 10 does not). */
    CCR &= ~(uint32_t)STKALIGN;
    phase("unpadded", x = misaligned(ROUNDS, x, works));
    CCR |= STKALIGN;
#endif
    carried = x;
    start_process(process_stack + 256);
#else
    irq_enable();
    phase("trap_entry", x = works(ROUNDS * 2, x));
    irq_disable();
    __asm__ volatile("csrw mtvec, %0\n\tcsrs mie, %1" ::"r"((uintptr_t)vector_table | 1), "r"(1 << 3));
    irq_enable();
    for (int i = 0; i < 20; i++) {
        *(volatile uint32_t *)0x02000000 = 1;
        x = works(ROUNDS / 10, x);
    }
    phase("vectored", x);
    irq_disable();
    __asm__ volatile("csrw mscratch, %0\n\tcsrw mtvec, %1" ::"r"(own_stack + 512), "r"(own_stack_entry));
    irq_enable();
    phase("own stack", x = works(ROUNDS * 2, x));
    irq_disable();
    __asm__ volatile("csrw mtvec, %0" ::"r"(trap_entry));
#endif
    finish();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
