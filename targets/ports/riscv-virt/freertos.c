/* FreeRTOS on RISC-V takes every trap itself. */
#include "board.h"

extern void freertos_risc_v_trap_handler(void);

void board_rtos_vectors(void)
{
    __asm__ volatile("csrw mtvec, %0" ::"r"(freertos_risc_v_trap_handler));
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
