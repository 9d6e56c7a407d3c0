/* STM32F407: CAN1 at 500 kbit/s, first with itself alone, then on a bus, where a test sends. A received frame is printed as
   candump prints it, and answered by 0x321 with one more in each byte. 0x12e lets the first queue overrun, 0x12f has three
   frames sent at once, 0x555 is the end. */
#define LINES 82
#include "chip.h"

enum { RCC = 0x40023800, GPIOB = 0x40020400, CAN = 0x40006400 };
enum { MCR = 0x00, MSR = 0x04, TSR = 0x08, RF0R = 0x0c, RF1R = 0x10, IER = 0x14, BTR = 0x1c };
enum { FMR = 0x200, FM1R = 0x204, FS1R = 0x20c, FFA1R = 0x214, FA1R = 0x21c };
#define MAILBOX(n) (CAN + 0x180 + 0x10 * (n))
#define QUEUE(n) (CAN + 0x1b0 + 0x10 * (n))
#define FILTER(bank) (CAN + 0x240 + 8 * (bank))
enum { TXRQ = 1 << 0, RTR = 1 << 1, IDE = 1 << 2, FMP = 3, FULL = 1 << 3, FOVR = 1 << 4, RFOM = 1 << 5 };
enum { TMEIE = 1 << 0, FMPIE0 = 1 << 1, FMPIE1 = 1 << 4 };
enum { OVERRUN = 0x12e, THREE = 0x12f, ANSWER = 0x321, END = 0x555 };
#define STANDARD(id) ((uint32_t)(id) << 21)
#define EXTENDED(id) ((uint32_t)(id) << 3 | IDE)

/* Identifier with IDE and RTR as the registers have it. */
struct frame {
    uint32_t identifier, length;
    uint8_t bytes[8];
};

/* Filled by the interrupts of both queues, which have the same priority. */
static struct frame ring[16];
static volatile unsigned received, sent;

static void put_word(uint8_t *bytes, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(word >> 8 * i);
}

static uint32_t word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static struct frame take(int queue)
{
    struct frame frame = { REG(QUEUE(queue)), REG(QUEUE(queue) + 4) & 15, { 0 } };
    put_word(frame.bytes, REG(QUEUE(queue) + 8));
    put_word(frame.bytes + 4, REG(QUEUE(queue) + 12));
    REG(CAN + RF0R + 4 * queue) = RFOM;
    while (REG(CAN + RF0R + 4 * queue) & RFOM)
        ;
    return frame;
}

static int is_standard(const struct frame *frame, uint32_t id)
{
    return !(frame->identifier & IDE) && frame->identifier >> 21 == id;
}

/* Stops at the frame that asks for an overrun, with the queue's interrupt off. */
static void queue0(void)
{
    while (REG(CAN + RF0R) & FMP) {
        struct frame frame = take(0);
        ring[received % 16] = frame;
        received++;
        if (is_standard(&frame, OVERRUN)) {
            REG(CAN + IER) &= ~(uint32_t)FMPIE0;
            return;
        }
    }
}

static void queue1(void)
{
    while (REG(CAN + RF1R) & FMP) {
        ring[received % 16] = take(1);
        received++;
    }
}

/* A request is completed (RQCP), and the frame was sent (TXOK). */
static void mailboxes(void)
{
    uint32_t status = REG(CAN + TSR);
    for (int n = 0; n < 3; n++) {
        if (!(status >> 8 * n & 1))
            continue;
        if (status >> 8 * n & 2)
            sent++;
        REG(CAN + TSR) = 1u << 8 * n;
    }
}

static void fill(unsigned mailbox, const struct frame *frame)
{
    REG(MAILBOX(mailbox)) = frame->identifier & ~(uint32_t)TXRQ;
    REG(MAILBOX(mailbox) + 4) = frame->length;
    REG(MAILBOX(mailbox) + 8) = word(frame->bytes);
    REG(MAILBOX(mailbox) + 12) = word(frame->bytes + 4);
}

static unsigned send(const struct frame *frame)
{
    while (!(REG(CAN + TSR) & 7u << 26))
        ;
    unsigned mailbox = REG(CAN + TSR) >> 24 & 3;
    fill(mailbox, frame);
    REG(MAILBOX(mailbox)) |= TXRQ;
    return mailbox;
}

static void three(void)
{
    static const uint16_t ids[3] = { 0x300, 0x100, 0x200 };
    while ((REG(CAN + TSR) & 7u << 26) != 7u << 26)
        ;
    for (unsigned n = 0; n < 3; n++) {
        struct frame frame = { STANDARD(ids[n]), 1, { (uint8_t)n } };
        fill(n, &frame);
    }
    for (unsigned n = 0; n < 3; n++)
        REG(MAILBOX(n)) |= TXRQ;
}

static char *hex(char *to, uint32_t value, int digits)
{
    while (digits--)
        *to++ = "0123456789ABCDEF"[value >> 4 * digits & 15];
    return to;
}

static const char *id_of(const struct frame *frame)
{
    static char text[9];
    int is_extended = (frame->identifier & IDE) != 0;
    *hex(text, frame->identifier >> (is_extended ? 3 : 21), is_extended ? 8 : 3) = 0;
    return text;
}

static const char *bytes_of(const struct frame *frame)
{
    static char text[17];
    char *to = text;
    for (unsigned i = 0; i < frame->length && i < 8; i++)
        to = hex(to, frame->bytes[i], 2);
    *to = 0;
    return text;
}

static void print_frame(const struct frame *frame)
{
    if (!(frame->identifier & RTR))
        print("can %s#%s\n", id_of(frame), bytes_of(frame));
    else if (frame->length)
        print("can %s#R%u\n", id_of(frame), (unsigned)frame->length);
    else
        print("can %s#R\n", id_of(frame));
}

static void answer(const struct frame *frame)
{
    struct frame other = { STANDARD(ANSWER), frame->identifier & RTR ? 0 : frame->length, { 0 } };
    for (unsigned i = 0; i < 8 && i < other.length; i++)
        other.bytes[i] = (uint8_t)(frame->bytes[i] + 1);
    send(&other);
}

/* Waits until four frames came to a queue for three. */
static void overrun(void)
{
    while (!(REG(CAN + RF0R) & FOVR))
        ;
    print("overrun %u\n", (unsigned)(REG(CAN + RF0R) & FMP));
    REG(CAN + RF0R) = FOVR | FULL;
    REG(CAN + IER) |= FMPIE0;
}

/* 500 kbit/s of 42 MHz: 84 = 6 * (1 + 11 + 2). */
static void begin(uint32_t mode)
{
    REG(CAN + MCR) = 1; /* INRQ, and SLEEP no more */
    while ((REG(CAN + MSR) & 3) != 1)
        ;
    REG(CAN + BTR) = mode | (2 - 1) << 20 | (11 - 1) << 16 | (6 - 1);
    REG(CAN + MCR) = 0;
    while (REG(CAN + MSR) & 1)
        ;
}

/* Bank 0 takes 0x120 to 0x12f, bank 1 the extended 0x1234567, bank 2 0x555; bank 1 is of the second queue. */
static void filter(void)
{
    REG(CAN + FMR) |= 1;
    REG(CAN + FA1R) = 0;
    REG(CAN + FM1R) = 1 << 1 | 1 << 2;
    REG(CAN + FS1R) = 1 << 0 | 1 << 1;
    REG(CAN + FFA1R) = 1 << 1;
    REG(FILTER(0)) = STANDARD(0x120);
    REG(FILTER(0) + 4) = STANDARD(0x7f0) | IDE;
    REG(FILTER(1)) = EXTENDED(0x1234567);
    REG(FILTER(1) + 4) = EXTENDED(0x1234567) | RTR;
    REG(FILTER(2)) = REG(FILTER(2) + 4) = (uint32_t)END << 5 | (uint32_t)END << 21;
    REG(CAN + FA1R) = 7;
    REG(CAN + FMR) &= ~1u;
}

static void loop(const struct frame *frame, int queue)
{
    unsigned mailbox = send(frame);
    while ((REG(CAN + TSR) >> 8 * mailbox & 3) != 3)
        ;
    REG(CAN + TSR) = 1u << 8 * mailbox;
    if (queue < 0) {
        check("what no filter takes is in no queue", !((REG(CAN + RF0R) | REG(CAN + RF1R)) & FMP));
        return;
    }
    while (!(REG(CAN + RF0R + 4 * queue) & FMP))
        ;
    struct frame back = take(queue);
    print("loop: %s %u %s\n", id_of(&back), (unsigned)back.length, bytes_of(&back));
}

static void loops(void)
{
    begin(3u << 30); /* SILM, LBKM */
    loop(&(struct frame){ STANDARD(0x123), 3, { 1, 2, 3 } }, 0);
    loop(&(struct frame){ EXTENDED(0x1234567), 8, { 1, 2, 3, 4, 5, 6, 7, 8 } }, 1);
    loop(&(struct frame){ STANDARD(END), 1, { 0xff } }, 0);
    loop(&(struct frame){ STANDARD(0x130), 1, { 9 } }, -1);
}

/* Sleeps until an interrupt has left something to print. */
static void wait(unsigned frames, unsigned told)
{
    irq_disable();
    while (received == frames && sent == told) {
        wait_for_interrupt();
        irq_enable();
        __asm__ volatile("isb" ::: "memory");
        irq_disable();
    }
    irq_enable();
}

int main(void)
{
    use_table();
    handle(19, mailboxes);
    handle(20, queue0);
    handle(21, queue1);
    REG(RCC + 0x30) |= 1 << 1; /* GPIOB */
    REG(RCC + 0x40) |= 1 << 25; /* CAN1 */
    REG(GPIOB + 0x24) = (REG(GPIOB + 0x24) & ~0xffu) | 0x99; /* PB8, PB9: CAN1 */
    REG(GPIOB) = (REG(GPIOB) & ~(0xfu << 16)) | 0xau << 16;
    filter();
    loops();
    begin(0);
    REG(CAN + IER) = TMEIE | FMPIE0 | FMPIE1;
    REG(0xe000e100) = 7 << 19;
    print("ready\n");
    unsigned printed = 0, told = 0, wanted = 0;
    for (int is_over = 0; !is_over || told < wanted;) {
        wait(printed, told);
        for (; told < sent; told++)
            print("sent\n");
        if (received == printed)
            continue;
        struct frame frame = ring[printed++ % 16];
        print_frame(&frame);
        answer(&frame);
        wanted++;
        if (is_standard(&frame, OVERRUN))
            overrun();
        if (is_standard(&frame, THREE)) {
            three();
            wanted += 3;
        }
        is_over |= is_standard(&frame, END);
    }
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
