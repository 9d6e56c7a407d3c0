/* What every port offers to the applications. An application includes this and nothing of a board. */
#pragma once
#include <stdint.h>
#include "arch.h" /* TIMER_HANDLER, irq_enable(), irq_disable(), wait_for_interrupt() */

void console_init(void);
void console_putc(char c);

/* Periodic interrupt, `hz` times per second of virtual time: TIMER_HANDLER is called. */
void timer_start(uint32_t hz);
/* One interrupt after `counts` counts of the timer's clock. */
void timer_once(uint32_t counts);
void timer_stop(void);
void TIMER_HANDLER(void);

/* Arm's and RISC-V's semihosting call: operation number and its argument block. */
long semihost(long operation, const void *block);

/* Ends the run with this status (semihosting SYS_EXIT_EXTENDED). */
_Noreturn void board_exit(int status);
/* Resets the machine as firmware would do it on a board. */
_Noreturn void board_reset(void);

/* Puts the interrupt handlers of the RTOS in place, where the vector table does not name them. */
void board_rtos_vectors(void);
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
