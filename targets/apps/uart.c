/* A driver that polls: the UART's status in a tight loop, a character now and then, and the timer read in
   between. Nearly every instruction is a device access or waits for one. */
#include "board.h"
#include "text.h"

enum { ROUNDS = 20000, POLLS = 8, ROUNDS_PER_CHARACTER = 100 };

#ifdef __riscv
#define STATUS (*(volatile uint8_t *)0x10000005)
#define TIMER (*(volatile uint32_t *)0x0200bff8)
#else
#define STATUS (*(volatile uint32_t *)0x40004004)
#define TIMER (*(volatile uint32_t *)0xe000e018)
#endif

static __attribute__((noipa)) uint32_t status(void) { return STATUS; }
static __attribute__((noipa)) uint32_t now(void) { return TIMER; }

static __attribute__((noipa)) uint32_t poll(void)
{
    uint32_t seen = 0;
    for (int i = 0; i < POLLS; i++)
        seen |= status();
    return seen;
}

int main(void)
{
    uint32_t never = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        never += poll() == 0xffffffff;
        never += now() == 0xffffffff;
        if (round % ROUNDS_PER_CHARACTER == 0)
            console_putc(round % (ROUNDS_PER_CHARACTER * 50) ? '.' : '\n');
    }
    print("uart: %u polls, %u impossible answers\n", (unsigned)(ROUNDS * POLLS), (unsigned)never);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
