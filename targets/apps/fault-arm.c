/* Blocks left in their middle: bad loads and stores, an undefined instruction, an unaligned load, a
   division by zero and a supervisor call in straight-line code; the handlers skip each and count it. */
#include "board.h"
#include "text.h"

#define CCR   (*(volatile uint32_t *)0xe000ed14)
#define SHCSR (*(volatile uint32_t *)0xe000ed24)
#define CFSR  (*(volatile uint32_t *)0xe000ed28)

enum { ROUNDS = 15000, UNALIGN_TRP = 1 << 3, DIV_0_TRP = 1 << 4, BUSFAULTENA = 1 << 17, USGFAULTENA = 1 << 18 };

static uint32_t bus_faults, undefined, unaligned, divisions, supervisor_calls;

struct frame { uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr; };

static void skip(struct frame *frame)
{
    uint16_t first = *(const uint16_t *)frame->pc;
    frame->pc += first >> 11 >= 0x1d ? 4 : 2;
}

void on_bus_fault(struct frame *frame)
{
    bus_faults++;
    CFSR = 0xff << 8;
    skip(frame);
}

void on_usage_fault(struct frame *frame)
{
    uint32_t why = CFSR >> 16;
    CFSR = why << 16;
    undefined += why & 1;
    unaligned += why >> 8 & 1;
    divisions += why >> 9 & 1;
    skip(frame);
}

__attribute__((naked)) void BusFault_Handler(void) { __asm__("mov r0, sp\n\tb on_bus_fault"); }
__attribute__((naked)) void UsageFault_Handler(void) { __asm__("mov r0, sp\n\tb on_usage_fault"); }
void SVC_Handler(void) { supervisor_calls++; }

static __attribute__((noipa)) uint32_t faults(uint32_t x)
{
    uint32_t got = 1;
    __asm__ volatile("add %0, %0, #3\n\t"
                     "ldr %1, [%2]\n\t" /* bus fault */
                     "eor %0, %0, #5\n\t"
                     "str.w %0, [%2, #8]\n\t" /* bus fault */
                     "add %0, %0, #1\n\t"
                     "udf #1\n\t"
                     "add %0, %0, #1\n\t"
                     "ldr.w %1, [%3, #1]\n\t" /* unaligned */
                     "add %0, %0, #1\n\t"
                     "udiv %1, %0, %4\n\t" /* by zero */
                     "add %0, %0, #1\n\t"
                     "svc #0\n\t"
                     "add %0, %0, #1\n\t"
                     : "+r"(x), "+r"(got)
                     : "r"(0xf0000000), "r"(&bus_faults), "r"(0));
    return x + got;
}

int main(void)
{
    uint32_t sum = 0;
    print("fault: %u rounds of 6 exceptions\n", (unsigned)ROUNDS);
    CCR |= UNALIGN_TRP | DIV_0_TRP;
    SHCSR |= BUSFAULTENA | USGFAULTENA;
    for (uint32_t i = 0; i < ROUNDS; i++)
        sum = faults(sum);
    print("bus %u, undefined %u, unaligned %u, division %u, svc %u\n", (unsigned)bus_faults, (unsigned)undefined,
          (unsigned)unaligned, (unsigned)divisions, (unsigned)supervisor_calls);
    print("sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
