/* What ports of machines with several CPUs offer beyond board.h. */
#pragma once
#include <stdint.h>

/* The executing CPU's, from 0. */
unsigned cpu_number(void);
/* Has the second CPU go, where it waits for that. */
void secondary_start(void);
/* Every other CPU's main function, which has a stack of its own. */
void secondary_main(uintptr_t cpu);
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
