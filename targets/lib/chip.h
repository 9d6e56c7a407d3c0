/* Programs for chips: registers by their addresses, a vector table with the chip's interrupts, and what is said of each
   check. LINES is the chip's number of interrupts. */
#include "board.h"
#include "text.h"

#define REG(address) (*(volatile uint32_t *)(address))
#define REG8(address) (*(volatile uint8_t *)(address))

/* The vector table of startup.c ends at the system handlers. */
static void other_interrupt(void) { board_exit(2); }
__attribute__((aligned(512))) static const void *table[16 + LINES];
extern const void *const vectors[16];

static inline void use_table(void)
{
    for (int i = 0; i < 16 + LINES; i++)
        table[i] = i < 16 ? vectors[i] : (const void *)other_interrupt;
    REG(0xe000ed08) = (uint32_t)table;
}

static inline void handle(int line, void (*handler)(void)) { table[16 + line] = (const void *)handler; }

static void check(const char *what, int is_right)
{
    print("%s %s\n", is_right ? "right" : "wrong", what);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
