/* STM32F407 and parts on its board, which a chip file of the test describes: a button at PA0 that bounces, a potentiometer at an
   ADC, a receiver at USART6, and on its buses a memory, a thermometer, a calendar (I2C1), a flash (SPI1, selected by PA4) and a
   memory at an I2C of newer STM32, which counts its bytes (at 0x40006000). What changes comes after what is printed. */
#define LINES 82
#include "chip.h"
#include "device.h"

enum { GPIOA = 0x40020000, EXTI = 0x40013c00, ADC = 0x40012000, SPI = 0x40013000, I2C = 0x40005400, USART6 = 0x40011400 };
enum { COUNTED = 0x40006000 };
enum { MEMORY = 0x50, THERMOMETER = 0x48, CALENDAR = 0x68 };

static volatile uint32_t falls, rises, ticks;

/* The button's: EXTI0. */
static void button(void)
{
    REG(EXTI + 0x14) = 1;
    if (REG(GPIOA + 0x10) & 1)
        rises++;
    else
        falls++;
}

static void tick(void)
{
    ticks++;
}

/* Sleeps for tenths of a second. */
static void sleep(uint32_t tenths)
{
    REG(0xe000e014) = SYSTICK_HZ / 20 - 1; /* of 24 bits */
    REG(0xe000e018) = 0;
    REG(0xe000e010) = 7;
    ticks = 0;
    while (ticks < tenths * 2)
        __asm__ volatile("wfi");
    REG(0xe000e010) = 0;
}

/* SR1 has a bit. */
static void await(uint32_t bit)
{
    while (!(REG(I2C + 0x14) & bit))
        ;
}

static int address(uint32_t byte)
{
    REG(I2C) = 1 | 1 << 10 | 1 << 8; /* PE, ACK, START */
    await(1);
    REG(I2C + 0x10) = byte;
    while (!(REG(I2C + 0x14) & (2 | 1 << 10)))
        ;
    if (REG(I2C + 0x14) & 1 << 10) {
        REG(I2C + 0x14) = ~(1u << 10); /* AF */
        return 0;
    }
    (void)REG(I2C + 0x18);
    return 1;
}

static int put(uint32_t device, const uint8_t *bytes, unsigned count)
{
    int is_there = address(device << 1);
    for (unsigned i = 0; is_there && i < count; i++) {
        await(1 << 7);
        REG(I2C + 0x10) = bytes[i];
    }
    if (is_there)
        await(1 << 2);
    REG(I2C) = 1 | 1 << 9;
    return is_there;
}

static int get(uint32_t device, uint8_t *bytes, unsigned count)
{
    int is_there = address(device << 1 | 1);
    for (unsigned i = 0; is_there && i < count; i++) {
        await(1 << 6);
        if (i + 1 == count)
            REG(I2C) = 1 | 1 << 9;
        bytes[i] = (uint8_t)REG(I2C + 0x10);
    }
    return is_there;
}

static void exchange(const uint8_t *send, uint8_t *receive, unsigned count)
{
    REG(GPIOA + 0x18) = 1 << 20; /* PA4 low */
    for (unsigned i = 0; i < count; i++) {
        REG8(SPI + 0xc) = send[i];
        while (!(REG(SPI + 8) & 1))
            ;
        receive[i] = REG8(SPI + 0xc);
    }
    REG(GPIOA + 0x18) = 1 << 4;
}

static void buttons(void)
{
    REG(EXTI + 0x08) = 1;
    REG(EXTI + 0x0c) = 1;
    REG(EXTI) = 1;
    print("press\n");
    while (!falls)
        __asm__ volatile("wfi");
    sleep(1);
    check("a button's contact bounces", falls == 3 && rises == 2 && !(REG(GPIOA + 0x10) & 1));
    sleep(1);
    check("it is released", falls == 5 && rises == 5 && REG(GPIOA + 0x10) & 1);
    REG(EXTI) = 0;
}

static uint32_t convert(void)
{
    REG(ADC + 8) = 1 << 30 | 1;
    while (!(REG(ADC) & 2))
        ;
    return REG(ADC + 0x4c);
}

static void voltages(void)
{
    REG(ADC + 0x34) = 3;
    REG(ADC + 8) = 1;
    uint32_t before = convert();
    print("turn\n");
    uint32_t after;
    while ((after = convert()) == before)
        ;
    check("a potentiometer is turned", before == 0 && after == 2345);
}

static void memories(void)
{
    uint8_t bytes[4], write[] = {0x01, 0x1f, 0xca, 0xfe};
    check("a memory takes an address of two bytes", put(MEMORY, write, 4));
    unsigned refused = 0;
    while (!put(MEMORY, write, 2))
        refused++;
    check("it is busy for a while", refused > 10);
    get(MEMORY, bytes, 2);
    check("its page begins again at its end", bytes[0] == 0xca && bytes[1] == 0xff);
    write[1] = 0x00;
    put(MEMORY, write, 2);
    get(MEMORY, bytes, 1);
    check("where the second byte went", bytes[0] == 0xfe);
}

static void temperatures(void)
{
    uint8_t bytes[2], pointer = 1;
    put(THERMOMETER, &pointer, 1);
    get(THERMOMETER, bytes, 2);
    check("a pointer chooses a register of two bytes", bytes[0] == 0x60 && bytes[1] == 0x5a);
    pointer = 0;
    put(THERMOMETER, &pointer, 1);
    print("warm\n");
    do {
        put(THERMOMETER, &pointer, 1);
        get(THERMOMETER, bytes, 2);
    } while (bytes[0] == 25);
    check("it is getting warmer", bytes[0] == 32 && bytes[1] == 0x80);
}

static void times(void)
{
    uint8_t bytes[7], set[] = {0, 0x59, 0x59, 0x23, 7, 0x31, 0x12, 0x26}, pointer = 0;
    put(CALENDAR, set, 8);
    sleep(11);
    put(CALENDAR, &pointer, 1);
    get(CALENDAR, bytes, 7);
    check("a calendar begins the next year", !bytes[0] && !bytes[1] && !bytes[2] && bytes[3] == 1 && bytes[4] == 1 &&
                                                 bytes[5] == 1 && bytes[6] == 0x27);
}

static void flashes(void)
{
    uint8_t answer[8];
    REG(GPIOA) = (REG(GPIOA) & ~(3u << 8)) | 1 << 8;
    REG(GPIOA + 0x18) = 1 << 4;
    REG(SPI) = 1 << 6 | 1 << 2;
    exchange((const uint8_t[]){0x9f, 0, 0, 0}, answer, 4);
    check("a flash says what it is", answer[1] == 0xef && answer[2] == 0x40 && answer[3] == 0x14);
    exchange((const uint8_t[]){6}, answer, 1);
    exchange((const uint8_t[]){2, 0, 1, 0xff, 0x12, 0x34}, answer, 6);
    unsigned busy = 0;
    do {
        exchange((const uint8_t[]){5, 0}, answer, 2);
        busy++;
    } while (answer[1] & 1);
    check("it is busy while it programs", busy > 3 && !(answer[1] & 2));
    exchange((const uint8_t[]){3, 0, 1, 0xff, 0}, answer, 5);
    check("it is programmed", answer[4] == 0x12);
    exchange((const uint8_t[]){3, 0, 1, 0, 0}, answer, 5);
    check("a page begins again at its end", answer[4] == 0x34);
}

/* Moves bytes: the register's number counts them, 255 at most, and another one follows. */
static int move(uint32_t device, uint8_t *bytes, unsigned count, uint32_t is_read, uint32_t end)
{
    for (unsigned at = 0; at < count;) {
        unsigned now = count - at > 255 ? 255 : count - at;
        uint32_t more = now < count - at ? 1 << 24 : end;
        REG(COUNTED + 4) = device << 1 | is_read << 10 | (at ? 0 : 1 << 13) | now << 16 | more;
        for (; now; now--, at++) {
            while (!(REG(COUNTED + 0x18) & (is_read ? 1 << 2 : 1 << 1)))
                if (REG(COUNTED + 0x18) & 1 << 4) {
                    REG(COUNTED + 0x1c) = 1 << 4 | 1 << 5;
                    return 0;
                }
            if (is_read)
                bytes[at] = (uint8_t)REG(COUNTED + 0x24);
            else
                REG(COUNTED + 0x28) = bytes[at];
        }
        while (!(REG(COUNTED + 0x18) & (more == 1 << 24 ? 1 << 7 : end ? 1 << 5 : 1 << 6)))
            ;
    }
    REG(COUNTED + 0x1c) = 1 << 5;
    return 1;
}

static void counted(void)
{
    static uint8_t sent[302], back[300];
    uint8_t start[] = {0, 0};
    for (unsigned i = 0; i < 300; i++)
        sent[2 + i] = (uint8_t)(i * 7);
    REG(COUNTED) = 1;
    check("nobody has another address", !move(0x33, sent, 1, 0, 1 << 25));
    check("a long transfer is counted in parts", move(MEMORY, sent, 302, 0, 1 << 25));
    int is_there = move(MEMORY, start, 2, 0, 0) && move(MEMORY, back, 300, 1, 1 << 25);
    unsigned same = 0;
    while (same < 300 && back[same] == sent[2 + same])
        same++;
    check("it is read again behind its address", is_there && same == 300);
}

static void receiver(void)
{
    char line[16];
    unsigned count = 0;
    REG(USART6 + 0x0c) = 1 << 13 | 1 << 2; /* UE, RE */
    print("where\n");
    do {
        while (!(REG(USART6) & 1 << 5))
            ;
        line[count] = (char)REG(USART6 + 4);
    } while (line[count++] != '\n' && count < sizeof line);
    check("a receiver says where", count == 8 && line[0] == '$' && line[6] == '7' && line[7] == '\n');
}

int main(void)
{
    use_table();
    handle(6, button);
    handle(-1, tick);
    REG(0xe000e100) = 1 << 6;
    buttons();
    voltages();
    memories();
    temperatures();
    times();
    flashes();
    counted();
    receiver();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
