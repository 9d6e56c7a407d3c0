/* As faulting-exit-arm.c. */
#include "board.h"
#include "text.h"

enum { RCC = 0x1c023800 };

static volatile uint32_t expected = 1;

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    (void)cause;
    if (expected) {
        expected = 0;
        return pc + ((*(const uint16_t *)pc & 3) == 3 ? 4 : 2);
    }
    print("faulting: giving up\n");
#ifdef FAULT_RESETS
    board_reset();
#else
    board_exit(3);
#endif
}

static __attribute__((noipa)) uint32_t probe(void) { return *(volatile uint32_t *)RCC; }
static __attribute__((noipa)) uint32_t SystemClock_Config(void) { return *(volatile uint32_t *)RCC; }

int main(void)
{
    print("faulting: a register that is not there\n");
    probe();
    return (int)SystemClock_Config();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
