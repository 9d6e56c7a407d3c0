/* The second CPU of the SSE-200: its vector table and start. It waits in reset until CPUWAIT lets it go, and begins with
   the table that INITSVTOR1 names. */
#include "board.h"
#include "secondary.h"
#include "device.h" /* CPU_IDENTITY, SYSCTL */

#define REG32(a) (*(volatile uint32_t *)(a))
enum { INITSVTOR1 = 0x114, CPUWAIT = 0x118 };

static uint64_t stack[256];

_Noreturn void Default_Handler(void);

_Noreturn static void secondary_reset(void)
{
    secondary_main(1);
    for (;;)
        wait_for_interrupt();
}

/* At a multiple of its size, as the Armv8-M ARM wants it. */
__attribute__((aligned(128))) static const void *const secondary_vectors[16] = {
    stack + 256,
    secondary_reset,
    Default_Handler, Default_Handler, Default_Handler, Default_Handler, Default_Handler, Default_Handler,
    0, 0, 0,
    Default_Handler, Default_Handler,
    0,
    Default_Handler,
    TIMER_HANDLER,
};

unsigned cpu_number(void) { return REG32(CPU_IDENTITY); }

void secondary_start(void)
{
    REG32(SYSCTL + INITSVTOR1) = (uint32_t)secondary_vectors;
    REG32(SYSCTL + CPUWAIT) &= ~2u;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
