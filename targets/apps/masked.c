/* Interrupts masked for known numbers of instructions, in every way there is, also under a timer that waits for
   the end. Counted are the instructions after the one that masks, up to the one that ends it; harness/tests/spans.rs
   knows the sums:

       Cortex-M    600 * 41 + 600 * 102 + 600 * 24 + 3 * (501 + 31 + 22)     PendSV: 3 times 21 and SysTick
       RISC-V      600 * 41 + 600 * 101 + 3 * (501 + 26 + 51 + 61)                                            */
#include "board.h"
#include "text.h"

enum { ROUNDS = 600, RARE = 3 };

static volatile uint32_t ticks;
void TIMER_HANDLER(void) { ticks++; }

#define FUNCTION(name, code)                                                                                     \
    ".text\n.balign 4\n.globl " name "\n.type " name ",%function\n" name ":\n" code "\n.size " name ", . - " name "\n"
#define NOPS(count) ".rept " #count "\nnop\n.endr\n"

void simply(void), by_register(void), falls(void), longest(void);

#ifndef __riscv

void nested(void), pends(void);
static volatile uint32_t pended;
void PendSV_Handler(void) { pended++; }

__asm__(".syntax unified\n.thumb\n"
    FUNCTION("simply", "cpsid i\n" NOPS(40) "cpsie i\nbx lr")
    FUNCTION("falls", "nop\nnop") /* into the next one */
    FUNCTION("longest", "cpsid i\n" NOPS(500) "cpsie i\nbx lr")
    FUNCTION("by_register", "movs r0, #0xc0\nmsr basepri, r0\n" NOPS(100) "movs r0, #0\nmsr basepri, r0\nbx lr")
    FUNCTION("nested", "movs r0, #0xc0\ncpsid i\nmsr basepri, r0\n" NOPS(10) "cpsie i\n" NOPS(10)
             "movs r0, #0\nmsr basepri, r0\nbx lr")
    /* The return from the exception clears FAULTMASK. */
    FUNCTION("SVC_Handler", "cpsid f\n" NOPS(30) "bx lr")
    /* SysTick, pended with it, comes first. */
    FUNCTION("pends", "ldr r0, =0xe000ed04\nldr r1, =0x14000000\ncpsid i\nstr r1, [r0]\n" NOPS(20) "cpsie i\nbx lr\n"
             ".ltorg"));

static void often(void) { nested(); }
static void rarely(void)
{
    __asm__ volatile("svc 0" ::: "memory");
    pends();
}
static int is_ok(void) { return pended == RARE; }

#else

void trapped(void), returns_masked(void), in_handler(void), skip(void), masks(void), works(void);

__asm__(
    FUNCTION("simply", "csrci mstatus, 8\n" NOPS(40) "csrsi mstatus, 8\nret")
    FUNCTION("falls", "nop\nnop")
    FUNCTION("longest", "csrci mstatus, 8\n" NOPS(500) "csrsi mstatus, 8\nret")
    FUNCTION("by_register", "li t0, 8\ncsrrc t1, mstatus, t0\n" NOPS(100) "csrw mstatus, t1\nret")
    /* A trap in the middle: its handler counts, too, for nothing can interrupt it. */
    FUNCTION("trapped", "la t1, skip\ncsrrw t1, mtvec, t1\ncsrci mstatus, 8\n" NOPS(10) ".option push\n.option norvc\n"
             "ecall\n.option pop\n" NOPS(10) "csrsi mstatus, 8\ncsrw mtvec, t1\nret")
    FUNCTION("skip", "csrr t0, mepc\naddi t0, t0, 4\ncsrw mepc, t0\nmret")
    /* Comes back from the trap with interrupts masked. */
    FUNCTION("returns_masked", "la t1, masks\ncsrrw t1, mtvec, t1\necall\n" NOPS(50) "csrsi mstatus, 8\ncsrw mtvec, t1\nret")
    FUNCTION("masks", "csrr t0, mepc\naddi t0, t0, 4\ncsrw mepc, t0\nli t0, 0x80\ncsrc mstatus, t0\nmret")
    /* In the handler they are let in, and then masked until it returns. */
    FUNCTION("in_handler", "la t1, works\ncsrrw t1, mtvec, t1\necall\ncsrw mtvec, t1\nret")
    FUNCTION("works", "csrr t0, mepc\naddi t0, t0, 4\ncsrsi mstatus, 8\nnop\ncsrci mstatus, 8\ncsrw mepc, t0\n"
             "li t0, 0x1880\ncsrs mstatus, t0\n" NOPS(56) "mret"));

static void often(void) {}
static void rarely(void)
{
    trapped();
    returns_masked();
    in_handler();
}
static int is_ok(void) { return 1; }

#endif

int main(void)
{
#ifdef __riscv
    irq_disable(); /* As they are since reset: no stretch begins here. */
#else
    *(volatile uint32_t *)0xe000ed20 = 0xc0e00000; /* SysTick over PendSV: BASEPRI masks both */
#endif
    timer_start(20000);
    for (int round = 0; round < ROUNDS; round++) {
        simply();
        by_register();
        often();
    }
    timer_stop();
    for (int round = 0; round < RARE; round++) {
        falls();
        rarely();
    }
    print("masked: %s\n", ticks && is_ok() ? "ok" : "bad");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
