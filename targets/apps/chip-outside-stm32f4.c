/* STM32F407 and what is outside of it: a button at PC13 that raises EXTI, a LED at PA5, voltages at ADCs (of F4; of F1 and
   L4, which a chip file of the test adds at 0x40012400 and 0x40014c00), a device on SPI1 and one on I2C1. */
#define LINES 82
#include "chip.h"
#include "device.h"

enum { GPIOA = 0x40020000, GPIOC = 0x40020800, EXTI = 0x40013c00, SYSCFG = 0x40013800 };
enum { ADC = 0x40012000, ADC_F1 = 0x40012400, ADC_L4 = 0x40014c00, SPI = 0x40013000, I2C = 0x40005400 };

static volatile uint32_t presses, releases, conversions;

/* The button's: EXTI15_10. */
static void button(void)
{
    REG(EXTI + 0x14) = 1 << 13;
    if (REG(GPIOC + 0x10) & 1 << 13)
        releases++;
    else
        presses++;
    REG(GPIOA + 0x18) = presses & 1 ? 1 << 5 : 1 << 21; /* BSRR: the LED */
}

static void adc(void)
{
    conversions++;
    REG(ADC + 4) = 0; /* EOCIE off */
}

static uint32_t convert(void)
{
    REG(ADC + 8) = 1 << 30 | 1;
    while (!(REG(ADC) & 2))
        ;
    return REG(ADC + 0x4c);
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

int main(void)
{
    use_table();
    handle(40, button);
    handle(18, adc);
    REG(0xe000e100) = 1 << 18;
    REG(0xe000e104) = 1 << (40 - 32);

    REG(GPIOA) = (REG(GPIOA) & ~(3u << 10)) | 1 << 10; /* PA5 is an output */
    check("a button is not pressed", REG(GPIOC + 0x10) == 1 << 13);
    REG(SYSCFG + 0x14) = 2 << 4; /* EXTICR4: PC13 */
    REG(EXTI + 0x08) = 1 << 13;
    REG(EXTI + 0x0c) = 1 << 13;
    REG(EXTI) = 1 << 13;
    while (presses < 2)
        __asm__ volatile("wfi");
    check("a button raises its interrupt at both edges", presses == 2 && releases == 1);
    REG(EXTI) = 0;
    check("a LED is on after an even number of presses", !(REG(GPIOA + 0x10) & 1 << 5));

    REG(ADC + 0x34) = 3; /* the first of the sequence: channel 3 */
    REG(ADC + 8) = 1;
    check("an ADC measures what its channel holds", convert() == 1234);
    REG(ADC + 0x34) = 4;
    check("an ADC measures another channel", convert() == 77);
    REG(ADC + 4) = 1 << 5;
    check("an ADC interrupts once", convert() == 77 && conversions == 1);
    REG(ADC + 0x34) = 3;
    uint32_t value;
    while ((value = convert()) == 1234)
        ;
    check("an ADC measures what comes from outside", value == 2345);
    REG(ADC_F1 + 0x34) = 3;
    REG(ADC_F1 + 8) = 1;
    REG(ADC_F1 + 8) = 1 | 1 << 3;
    while (REG(ADC_F1 + 8) & 1 << 3)
        ;
    REG(ADC_F1 + 8) = 1 | 1 << 2;
    while (REG(ADC_F1 + 8) & 1 << 2)
        ;
    REG(ADC_F1 + 8) = 1 | 1 << 22;
    while (!(REG(ADC_F1) & 2))
        ;
    check("an ADC of F1 calibrates and measures", REG(ADC_F1 + 0x4c) == 11);
    REG(ADC_L4 + 8) = 1u << 31;
    while (REG(ADC_L4 + 8) & 1u << 31)
        ;
    REG(ADC_L4 + 8) = 1;
    while (!(REG(ADC_L4) & 1))
        ;
    REG(ADC_L4 + 0x30) = 5 << 6;
    REG(ADC_L4 + 8) = 1 | 1 << 2;
    while (!(REG(ADC_L4) & 4))
        ;
    check("an ADC of L4 calibrates and measures", REG(ADC_L4 + 0x40) == 22);

    uint8_t id[4];
    REG(SPI) = 1 << 6 | 1 << 2;
    for (int i = 0; i < 4; i++) {
        REG8(SPI + 0xc) = 0x9f;
        while (!(REG(SPI + 8) & 1))
            ;
        id[i] = REG8(SPI + 0xc);
    }
    check("a device on SPI answers its bytes", id[0] == 0xef && id[1] == 0x40 && id[2] == 0x18 && id[3] == 0xff);

    check("nobody has another address on I2C", !address(0x50 << 1));
    REG(I2C) = 1 | 1 << 9;
    int is_there = address(0x68 << 1);
    REG(I2C + 0x10) = 1;
    await(1 << 2);
    is_there &= address(0x68 << 1 | 1);
    await(1 << 6);
    uint32_t first = REG(I2C + 0x10);
    REG(I2C) = 1 | 1 << 9; /* the stop is asked for before the last byte is read */
    await(1 << 6);
    uint32_t second = REG(I2C + 0x10);
    check("a device on I2C answers from the byte that is named", is_there && first == 0x71 && second == 0x72);
    check("a stop ends it", !(REG(I2C + 0x14) & 1 << 6) && !(REG(I2C + 0x18) & 2));
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
