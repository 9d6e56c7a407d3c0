/* A chip, by RIOT: its clocks, a timer's interrupt as tick, a serial port that receives by interrupt and echoes a line
   in capitals. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>

#include "mutex.h"
#include "ztimer.h"

#define TICK_US 1000

static unsigned ticks;
static mutex_t over = MUTEX_INIT_LOCKED;
static ztimer_t timer;

/* ztimer_periodic would not do: a board corrects its timers for the time that its code takes, which is not that of the
   model, and a tick that comes early lets that module count the others at once. */
static void tick(void *argument)
{
    if (++ticks < 10)
        ztimer_set(ZTIMER_USEC, &timer, TICK_US);
    else
        mutex_unlock(argument);
}

/* Ends the run with status 0, by semihosting (SYS_EXIT, ADP_Stopped_ApplicationExit). */
static void finish(void)
{
    register uintptr_t operation __asm__("r0") = 0x18, reason __asm__("r1") = 0x20026;
    __asm__ volatile("bkpt 0xab" : : "r"(operation), "r"(reason) : "memory");
}

int main(void)
{
    int byte;
    puts("riot on " CHIP);
    timer = (ztimer_t) { .callback = tick, .arg = &over };
    ztimer_set(ZTIMER_USEC, &timer, TICK_US);
    mutex_lock(&over);
    printf("%u ticks\nname? ", ticks);
    fflush(stdout);
    do {
        byte = getchar();
        putchar(toupper(byte));
    } while (byte != '\n');
    fflush(stdout);
    finish();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
