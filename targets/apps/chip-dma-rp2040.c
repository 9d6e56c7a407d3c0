/* RP2040: DMA from memory to memory, chained, into nothing, and of UART0 in both directions. Its Cortex-M0+ has no vector table
   of the program's own here, so interrupts are looked at where they are pending. */
#define LINES 26
#include "chip.h"
#include "device.h"

enum { DMA = 0x50000000, UART = UART0 };
#define CHANNEL(n) (DMA + 0x40 * (n))
enum { READ = 0x00, WRITE = 0x04, COUNT = 0x08, CTRL = 0x0c, AL1_CTRL = 0x10, AL1_COUNT_TRIG = 0x1c, AL3_READ_TRIG = 0x3c };
enum { EN = 1, WORDS = 2 << 2, INCR_READ = 1 << 4, INCR_WRITE = 1 << 5, NO_WAIT = 0x3f << 15, BUSY = 1 << 24 };
#define CHAIN(n) ((n) << 11)

static uint32_t from[64], to[64], other[64];
static const char line[] = "a channel sends this\n";
static volatile char typed[5];

static int same(const uint32_t *copy)
{
    for (int i = 0; i < 64; i++)
        if (copy[i] != from[i])
            return 0;
    return 1;
}

static void set(int channel, const void *read, const void *write, uint32_t count)
{
    REG(CHANNEL(channel) + READ) = (uint32_t)read;
    REG(CHANNEL(channel) + WRITE) = (uint32_t)write;
    REG(CHANNEL(channel) + COUNT) = count;
}

static void wait(int channel)
{
    while (REG(CHANNEL(channel) + CTRL) & BUSY)
        ;
}

int main(void)
{
    const uint32_t copy = EN | WORDS | INCR_READ | INCR_WRITE | NO_WAIT;
    for (int i = 0; i < 64; i++)
        from[i] = 0x01010101u * i;
    REG(DMA + 0x404) = 1 << 3; /* INTE0 */

    set(3, from, to, 64);
    check("a channel waits for its trigger", REG(CHANNEL(3) + COUNT) == 64 && !(REG(CHANNEL(3) + CTRL) & BUSY));
    REG(CHANNEL(3) + CTRL) = copy | CHAIN(3);
    check("a channel takes a while", REG(CHANNEL(3) + CTRL) & BUSY && !same(to));
    wait(3);
    check("a channel copies memory", same(to) && REG(CHANNEL(3) + COUNT) == 0);
    check("its addresses are behind the last item", REG(CHANNEL(3) + READ) == (uint32_t)(from + 64)
        && REG(CHANNEL(3) + WRITE) == (uint32_t)(to + 64));
    check("its interrupt is pending", REG(DMA + 0x40c) == 1 << 3 && REG(0xe000e200) & 1 << 11);
    REG(DMA + 0x40c) = 1 << 3;
    check("its interrupt is acknowledged", !REG(DMA + 0x400) && !REG(DMA + 0x40c));

    /* By another view of its registers, of which one begins it again with as many items; and 4 of them begin channel 5. */
    for (int i = 0; i < 64; i++)
        to[i] = 0;
    set(5, from, other, 64);
    REG(CHANNEL(5) + AL1_CTRL) = copy | CHAIN(5);
    REG(CHANNEL(4) + AL1_CTRL) = copy | CHAIN(5);
    REG(CHANNEL(4) + WRITE) = (uint32_t)to;
    REG(CHANNEL(4) + READ) = (uint32_t)from;
    check("the first view of its control starts it, no other", !(REG(CHANNEL(4) + CTRL) & BUSY));
    REG(CHANNEL(4) + AL1_COUNT_TRIG) = 64;
    wait(4);
    wait(5);
    check("a channel's end begins another one", same(to) && same(other) && REG(DMA + 0x400) == (1 << 4 | 1 << 5));
    other[0] = to[0] = 99;
    REG(CHANNEL(5) + WRITE) = (uint32_t)other;
    REG(CHANNEL(5) + AL3_READ_TRIG) = (uint32_t)from;
    wait(5);
    check("a channel begins again with as many items", same(other) && to[0] == 99);
    REG(DMA + 0x400) = ~0u;

    /* UART0 sends, and receives. */
    REG(UART + 0x48) = 3; /* DMACR */
    set(0, line, (void *)UART, sizeof line - 1);
    REG(CHANNEL(0) + CTRL) = EN | INCR_READ | CHAIN(0) | 20 << 15;
    wait(0);
    print("name? ");
    set(1, (void *)UART, (void *)typed, sizeof typed);
    REG(CHANNEL(1) + CTRL) = EN | INCR_WRITE | CHAIN(1) | 21 << 15;
    wait(1);
    for (unsigned i = 0; i < sizeof typed; i++)
        print("%c", typed[i] >= 'a' && typed[i] <= 'z' ? typed[i] - 32 : typed[i]);

    /* Where there is nothing. */
    set(2, from, (void *)0x60000000, 1);
    REG(CHANNEL(2) + CTRL) = copy | CHAIN(2);
    wait(2);
    check("where there is nothing a channel fails", REG(CHANNEL(2) + CTRL) >> 31);
    set(2, from, to, 64);
    REG(CHANNEL(2) + CTRL) = EN | INCR_READ | CHAIN(2) | 20 << 15;
    REG(DMA + 0x444) = 1 << 2; /* CHAN_ABORT */
    check("a channel is aborted", !(REG(CHANNEL(2) + CTRL) & BUSY));
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
