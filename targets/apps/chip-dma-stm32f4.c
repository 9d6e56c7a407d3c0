/* STM32F407: DMA by streams (of F2, F4, F7) and by channels (of F1, L4), from memory to memory and of USART2 in both
   directions, as HALs use it; of SPI1 and ADC1. A chip file of the test adds the controller with channels at 0x40026800. */
#define LINES 82
#include "chip.h"
#include "device.h"

enum { DMA1 = 0x40026000, DMA2 = 0x40026400, CHANNELS = 0x40026800, USART = UART0, SPI = 0x40013000,
    ADC = 0x40012000 };
enum { LISR = 0x00, HISR = 0x04, LIFCR = 0x08, HIFCR = 0x0c };
#define STREAM(dma, n) ((dma) + 0x10 + 0x18 * (n))
#define CHANNEL(n) (CHANNELS + 0x08 + 0x14 * ((n) - 1))
enum { CR = 0, NDTR = 4, PAR = 8, M0AR = 12 };

static volatile uint32_t copied, sent, channels;
static uint32_t from[64], to[64];
static const char line[] = "a stream sends this\n", other[] = "a channel sends this\n";
static volatile char typed[8];
static const uint8_t question[4] = { 0x9f };
static volatile uint8_t answer[4];
static volatile uint16_t samples[4];

/* The flags are read before they are cleared, as HALs do. */
static void dma2_stream0(void)
{
    if (REG(DMA2 + LISR) & 1 << 5)
        copied++;
    REG(DMA2 + LIFCR) = 0x3d;
}

static void dma1_stream6(void)
{
    if (REG(DMA1 + HISR) & 1 << 21)
        sent++;
    REG(DMA1 + HIFCR) = 0x3d << 16;
}

static void channel1(void)
{
    if (REG(CHANNELS) & 2)
        channels++;
    REG(CHANNELS + 4) = 1; /* CGIF clears all of the channel's */
}

static int same(void)
{
    for (int i = 0; i < 64; i++)
        if (to[i] != from[i])
            return 0;
    return 1;
}

int main(void)
{
    use_table();
    handle(56, dma2_stream0);
    handle(17, dma1_stream6);
    handle(60, channel1);
    REG(0xe000e100) = 1 << 17;
    REG(0xe000e104) = 1 << (56 - 32) | 1 << (60 - 32);
    for (int i = 0; i < 64; i++)
        from[i] = 0x01010101u * i;

    /* Memory to memory, words. */
    REG(STREAM(DMA2, 0) + NDTR) = 64;
    REG(STREAM(DMA2, 0) + PAR) = (uint32_t)from;
    REG(STREAM(DMA2, 0) + M0AR) = (uint32_t)to;
    REG(STREAM(DMA2, 0) + CR) = 2 << 13 | 2 << 11 | 1 << 10 | 1 << 9 | 2 << 6 | 1 << 4;
    REG(STREAM(DMA2, 0) + CR) |= 1;
    check("a stream takes a while", REG(STREAM(DMA2, 0) + NDTR) == 64 && !copied);
    while (!copied)
        __asm__ volatile("wfi");
    check("a stream copies memory", same());
    check("a stream is off at its end", !(REG(STREAM(DMA2, 0) + CR) & 1) && REG(STREAM(DMA2, 0) + NDTR) == 0);

    /* USART2 sends. */
    REG(USART + 0x14) = 1 << 7 | 1 << 6; /* CR3: DMAT, DMAR */
    REG(STREAM(DMA1, 6) + NDTR) = sizeof line - 1;
    REG(STREAM(DMA1, 6) + PAR) = USART + 4;
    REG(STREAM(DMA1, 6) + M0AR) = (uint32_t)line;
    REG(STREAM(DMA1, 6) + CR) = 4 << 25 | 1 << 10 | 1 << 6 | 1 << 4 | 1;
    while (!sent)
        __asm__ volatile("wfi");
    check("a stream's interrupt comes once", sent == 1 && copied == 1);

    /* USART2 receives, round and round. */
    REG(STREAM(DMA1, 5) + NDTR) = sizeof typed;
    REG(STREAM(DMA1, 5) + PAR) = USART + 4;
    REG(STREAM(DMA1, 5) + M0AR) = (uint32_t)typed;
    REG(STREAM(DMA1, 5) + CR) = 4 << 25 | 1 << 10 | 1 << 8 | 1;
    print("name? ");
    uint32_t at = 0;
    for (char c = 0; c != '\n';) {
        while (sizeof typed - REG(STREAM(DMA1, 5) + NDTR) == at)
            ;
        c = typed[at];
        at = (at + 1) % sizeof typed;
        print("%c", c >= 'a' && c <= 'z' ? c - 32 : c);
    }
    REG(STREAM(DMA1, 5) + CR) &= ~1u;
    check("a circular stream went round", REG(DMA1 + HISR) & 1 << 11 && at == 2);

    /* The same by channels. */
    for (int i = 0; i < 64; i++)
        to[i] = 0;
    REG(CHANNEL(1) + NDTR) = sizeof to;
    REG(CHANNEL(1) + PAR) = (uint32_t)from;
    REG(CHANNEL(1) + M0AR) = (uint32_t)to;
    REG(CHANNEL(1) + CR) = 1 << 14 | 1 << 7 | 1 << 6 | 1 << 1 | 1;
    while (!channels)
        __asm__ volatile("wfi");
    check("a channel copies memory", same() && REG(CHANNEL(1) + NDTR) == 0 && !(REG(CHANNELS) & 0xf));
    REG(CHANNEL(1) + CR) = 0;
    REG(CHANNEL(7) + NDTR) = sizeof other - 1;
    REG(CHANNEL(7) + PAR) = USART + 4;
    REG(CHANNEL(7) + M0AR) = (uint32_t)other;
    REG(CHANNEL(7) + CR) = 1 << 7 | 1 << 4 | 1;
    while (!(REG(CHANNELS) & 1 << 25))
        ;
    check("a channel sends what USART2 asks for", REG(CHANNEL(7) + NDTR) == 0);
    REG(CHANNEL(2) + NDTR) = 4;
    REG(CHANNEL(2) + PAR) = (uint32_t)from;
    REG(CHANNEL(2) + M0AR) = 0x080e0000;
    REG(CHANNEL(2) + CR) = 1 << 14 | 1 << 7 | 1 << 6 | 1;
    while (!(REG(CHANNELS) & 1 << 7))
        ;
    check("a channel does not write flash", !(REG(CHANNEL(2) + CR) & 1));

    /* SPI1 exchanges four bytes by two streams. */
    REG(SPI) = 1 << 6 | 1 << 2; /* SPE, MSTR */
    REG(STREAM(DMA2, 2) + NDTR) = REG(STREAM(DMA2, 3) + NDTR) = sizeof answer;
    REG(STREAM(DMA2, 2) + PAR) = REG(STREAM(DMA2, 3) + PAR) = SPI + 0x0c;
    REG(STREAM(DMA2, 2) + M0AR) = (uint32_t)answer;
    REG(STREAM(DMA2, 3) + M0AR) = (uint32_t)question;
    REG(STREAM(DMA2, 2) + CR) = 3 << 25 | 1 << 10 | 1;
    REG(STREAM(DMA2, 3) + CR) = 3 << 25 | 1 << 10 | 1 << 6 | 1;
    for (volatile int i = 0; i < 200; i++)
        ;
    check("streams wait until SPI1 asks", REG(STREAM(DMA2, 3) + NDTR) == sizeof answer);
    REG(SPI + 4) = 3; /* CR2: TXDMAEN, RXDMAEN */
    while (!(REG(DMA2 + LISR) & 1 << 21))
        ;
    check("streams exchange bytes on SPI1", answer[0] == 0xef && answer[1] == 0x40 && answer[2] == 0x18 && answer[3] == 0xff
        && REG(DMA2 + LISR) & 1 << 27);

    /* ADC1 converts again and again. */
    REG(ADC + 0x34) = 4; /* SQR3: channel 4 */
    REG(ADC + 8) = 1 << 8 | 1 << 1 | 1; /* DMA, CONT, ADON */
    REG(STREAM(DMA2, 4) + NDTR) = 3;
    REG(STREAM(DMA2, 4) + PAR) = ADC + 0x4c;
    REG(STREAM(DMA2, 4) + M0AR) = (uint32_t)samples;
    REG(STREAM(DMA2, 4) + CR) = 1 << 13 | 1 << 11 | 1 << 10 | 1;
    REG(ADC + 8) |= 1 << 30; /* SWSTART */
    while (!(REG(DMA2 + HISR) & 1 << 5))
        ;
    check("a stream stores conversions", samples[0] == 77 && samples[2] == 77 && samples[3] == 0);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
