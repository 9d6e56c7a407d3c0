/* A dialogue on the UART: prompts, reads a line, answers with it reversed and with the value of every byte. `quit`
   ends it, and so does nobody saying anything. Reads by polling; by interrupt (ECHO_IRQ), asleep in between, with a
   tick or (ECHO_SLEEP) without, and (ECHO_FIFO) with the 16550's receive FIFO; or from the semihosting console (ECHO_READC). */
#include "board.h"
#include "text.h"

enum { LINE = 64, ENOUGH_POLLS = 400000, ENOUGH_TICKS = 20 };

static int length;
static char line[LINE];

#ifdef __riscv
#define UART(n) (*(volatile uint8_t *)(0x10000000 + (n)))
static inline int ready(void) { return UART(5) & 1; }
static inline char take(void) { return (char)UART(0); }
#else
#define UART(n) (*(volatile uint32_t *)(0x40004000 + (n)))
static inline int ready(void) { return UART(4) & 2; }
static inline char take(void) { return (char)UART(0); }
#endif

#ifdef ECHO_READC

static void listen(void) {}
static int next(void) { return (int)semihost(7, 0); }

#elif defined(ECHO_IRQ)

enum { RING = 256 };
static volatile uint32_t head, tail, ticks;
static char ring[RING];

static void receive(void)
{
    while (ready())
        ring[head++ % RING] = take();
}

void TIMER_HANDLER(void) { ticks++; }

#ifdef __riscv
/* The PLIC's context 0 is hart 0 in machine mode; the UART is its source 10. */
#define PLIC(offset) (*(volatile uint32_t *)(0x0c000000 + (offset)))
enum { SOURCE = 10, PRIORITY = 4 * SOURCE, ENABLE = 0x2000, THRESHOLD = 0x200000, CLAIM = 0x200004 };

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    if ((cause & 0xff) != 11)
        board_exit(1);
    uint32_t source = PLIC(CLAIM);
    receive();
    PLIC(CLAIM) = source;
    return pc;
}

static void listen(void)
{
    PLIC(PRIORITY) = 1;
    PLIC(ENABLE) = 1u << SOURCE;
    PLIC(THRESHOLD) = 0;
#ifdef ECHO_FIFO
    UART(3) = 0x83; /* 115,200 baud: how long the device waits for more */
    UART(0) = 2;
    UART(3) = 3;
    UART(2) = 0xc1; /* interrupt at 14 bytes, or when no more come for a while */
#endif
    UART(1) = 1; /* interrupt when there is data */
    __asm__ volatile("csrs mie, %0" ::"r"(1 << 11));
}
#else
/* The port's vectors end at 16; UART0's receive interrupt is the next one. */
static void (*table[64])(void) __attribute__((aligned(256)));
#define VTOR (*(volatile uint32_t *)0xe000ed08)
#define NVIC_ENABLE (*(volatile uint32_t *)0xe000e100)

static void on_receive(void)
{
    UART(12) = 2; /* the interrupt is done with before the byte is read: the next one comes as it is */
    receive();
}

static void listen(void)
{
    const uint32_t *vectors = (const uint32_t *)VTOR;
    for (int i = 0; i < 16; i++)
        table[i] = (void (*)(void))(uintptr_t)vectors[i];
    table[16] = on_receive;
    VTOR = (uint32_t)(uintptr_t)table;
    NVIC_ENABLE = 1;
    UART(8) = 1 | 2 | 8; /* transmit, receive, interrupt when there is data */
}
#endif

/* The next byte; -1 when there was none for long. */
static int next(void)
{
    ticks = 0;
    irq_disable();
    while (head == tail) {
        if (ticks >= ENOUGH_TICKS)
            return -1;
        wait_for_interrupt();
        irq_enable();
        irq_disable();
    }
    irq_enable();
    return (uint8_t)ring[tail++ % RING];
}

#else

static void listen(void)
{
#ifndef __riscv
    UART(8) = 1 | 2; /* transmit, receive */
#endif
}

static int next(void)
{
    for (int polls = 0; polls < ENOUGH_POLLS; polls++)
        if (ready())
            return (uint8_t)take();
    return -1;
}

#endif

static int is_quit(void) { return length == 4 && line[0] == 'q' && line[1] == 'u' && line[2] == 'i' && line[3] == 't'; }

static __attribute__((noipa)) void answer(void)
{
    print("%u:", (unsigned)length);
    for (int i = length; i-- > 0;)
        print(" %02x", (unsigned)(uint8_t)line[i]);
    print("\n");
}

int main(void)
{
    int byte = 0;
    listen();
#if defined(ECHO_IRQ) && !defined(ECHO_SLEEP)
    timer_start(1000);
#endif
    while (byte >= 0 && !is_quit()) {
        print("prompt> ");
        length = 0;
        while ((byte = next()) >= 0 && byte != '\n')
            if (length < LINE)
                line[length++] = (char)byte;
        if (byte >= 0)
            answer();
    }
    timer_stop();
    print(byte >= 0 ? "bye\n" : "nobody there\n");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
