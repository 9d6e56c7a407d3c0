/* Blocks left in their middle: bad loads and stores, illegal instructions, environment calls and
   breakpoints in straight-line code; the handler skips each and counts it by cause. */
#include "board.h"
#include "text.h"

enum { ROUNDS = 15000, BAD = 0x40, CAUSES = 12 };

static uint32_t counts[CAUSES];

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    if (cause >= CAUSES)
        board_exit(1);
    counts[cause]++;
    return pc + ((*(volatile uint16_t *)pc & 3) == 3 ? 4 : 2);
}

static __attribute__((noipa)) uint32_t faults(uint32_t x)
{
    uint32_t got = 1;
    __asm__ volatile("addi %0, %0, 3\n\t"
                     "lw %1, 0(%2)\n\t" /* load access fault */
                     "xori %0, %0, 5\n\t"
                     "sw %0, 8(%2)\n\t" /* store access fault */
                     "addi %0, %0, 1\n\t"
                     ".word 0xffffffff\n\t" /* illegal */
                     "addi %0, %0, 1\n\t"
                     ".hword 0\n\t" /* illegal, two bytes */
                     "addi %0, %0, 1\n\t"
                     "ecall\n\t"
                     "addi %0, %0, 1\n\t"
                     "ebreak\n\t"
                     "addi %0, %0, 1\n\t"
                     : "+r"(x), "+r"(got)
                     : "r"((uintptr_t)BAD));
    return x + got;
}

int main(void)
{
    static const uint8_t causes[] = { 2, 3, 5, 7, 11 };
    uint32_t sum = 0;
    print("fault: %u rounds of 6 traps\n", (unsigned)ROUNDS);
    for (uint32_t i = 0; i < ROUNDS; i++)
        sum = faults(sum);
    for (unsigned i = 0; i < sizeof causes; i++)
        print("cause %2u: %u\n", causes[i], (unsigned)counts[causes[i]]);
    print("sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
