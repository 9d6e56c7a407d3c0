/* Asks whether there is a device, as boot loaders do: the trap handler goes back to where the question was asked by a
   jump, and never returns as traps do. Then it works; it never faults again. */
#include "board.h"
#include "text.h"
#include "work.h"

static void *back[5];
static volatile uint32_t answers;

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    (void)cause, (void)pc;
    __builtin_longjmp(back, 1);
}

static __attribute__((noipa)) uint32_t probe(uintptr_t address) { return *(volatile uint32_t *)address; }

int main(void)
{
    print("probing: a device that is not there\n");
    if (__builtin_setjmp(back) == 0)
        answers += probe(0x1c023800);
    for (uint32_t sum = 1;; sum = rotate_left(sum, 3) + 1)
        answers += sum;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
