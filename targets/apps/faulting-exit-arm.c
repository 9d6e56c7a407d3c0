/* Firmware that faults as faulting-arm.c does, and whose handler says so and exits. A fault before that is one that it
   expects: it goes on behind it. With FAULT_RESETS the handler resets the machine. */
#include "board.h"
#include "text.h"

enum { RCC = 0xf0023800 };

struct frame { uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr; };

static volatile uint32_t expected = 1;

void on_fault(struct frame *frame)
{
    if (expected) {
        expected = 0;
        frame->pc += *(const uint16_t *)frame->pc >> 11 >= 0x1d ? 4 : 2;
        return;
    }
    print("faulting: giving up\n");
#ifdef FAULT_RESETS
    board_reset();
#else
    board_exit(3);
#endif
}

__attribute__((naked)) void HardFault_Handler(void) { __asm__("mov r0, sp\n\tb on_fault"); }

static __attribute__((noipa)) uint32_t probe(void) { return *(volatile uint32_t *)RCC; }
static __attribute__((noipa)) uint32_t SystemClock_Config(void) { return *(volatile uint32_t *)RCC; }

int main(void)
{
    print("faulting: a register that is not there\n");
    probe();
    return (int)SystemClock_Config();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
