/* SysTick as the port's timer, and reset by SYSRESETREQ. */
#include "board.h"
#include "device.h" /* SYSTICK_HZ */

#define SYST_CSR (*(volatile uint32_t *)0xe000e010)
#define SYST_RVR (*(volatile uint32_t *)0xe000e014)
#define SYST_CVR (*(volatile uint32_t *)0xe000e018)
#define AIRCR    (*(volatile uint32_t *)0xe000ed0c)

enum { ENABLE = 1, TICKINT = 2, CLKSOURCE = 4 };

void timer_once(uint32_t counts)
{
    SYST_CSR = 0;
    SYST_RVR = counts;
    SYST_CVR = 0;
    SYST_CSR = ENABLE | TICKINT | CLKSOURCE;
}

void timer_start(uint32_t hz)
{
    timer_once(SYSTICK_HZ / hz - 1);
    irq_enable();
}

void timer_stop(void)
{
    SYST_CSR = 0;
}

void board_reset(void)
{
    __asm__ volatile("dsb" ::: "memory");
    AIRCR = 0x05fa0004; /* VECTKEY, SYSRESETREQ */
    __asm__ volatile("dsb" ::: "memory");
    for (;;)
        ;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
