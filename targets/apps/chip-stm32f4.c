/* STM32F407, one peripheral of each kind: that SysTick, timers and what instructions take are one time, interrupts of
   lines that QEMU's board has not, flash erased and programmed, random numbers, nobody on I2C and SPI, a register that
   nothing models, an address at which there is nothing. */
#define LINES 82
#include "chip.h"
#include "device.h"

static volatile uint32_t updates, faults, usarts;

__attribute__((used)) static void tim5(void)
{
    REG(0x40000c10) = 0; /* SR */
    updates++;
}

__attribute__((used)) static void usart6(void)
{
    usarts++;
    REG(0x4001140c) = 1 << 13 | 1 << 3; /* TCIE off */
}

/* Goes on behind the access, which is of 2 bytes. */
__attribute__((naked)) void BusFault_Handler(void)
{
    __asm__("mrs r0, msp\n\tldr r1, [r0, #24]\n\tadds r1, #2\n\tstr r1, [r0, #24]\n\t"
            "ldr r0, =faults_of\n\tldr r0, [r0]\n\tldr r1, [r0]\n\tadds r1, #1\n\tstr r1, [r0]\n\tbx lr");
}
__attribute__((used)) volatile uint32_t *const faults_of = &faults;

static int near(uint32_t value, uint32_t wanted)
{
    return value >= wanted - wanted / 100 && value <= wanted + wanted / 100 + 2;
}

__attribute__((noinline)) static uint32_t read_nothing(void)
{
    uint32_t value = 7;
    __asm__ volatile("ldr %0, [%1]" : "+l"(value) : "l"(0x60000000));
    return value;
}

int main(void)
{
    use_table();
    handle(50, tim5);
    handle(71, usart6);
    REG(0xe000ed24) |= 1 << 17; /* BUSFAULTENA */

    /* 10 ms of SysTick (168 MHz) on TIM2 (84 MHz). */
    REG(0x40000014) = 1;
    REG(0x40000000) = 1;
    REG(0xe000e014) = 168000 - 1;
    REG(0xe000e018) = 0;
    REG(0xe000e010) = 5;
    uint32_t begin = REG(0x40000024);
    for (int ms = 0; ms < 10; ms++)
        while (!(REG(0xe000e010) & 1 << 16))
            ;
    check("10 ms of SysTick are 10 ms of TIM2", near(REG(0x40000024) - begin, 840000));
    REG(0xe000e010) = 0;

    /* TIM5's updates at 1 kHz, by interrupt 50. */
    REG(0x40000c28) = 84 - 1;
    REG(0x40000c2c) = 1000 - 1;
    REG(0x40000c14) = 1;
    REG(0x40000c10) = 0;
    REG(0x40000c0c) = 1;
    REG(0xe000e104) = 1 << (50 - 32);
    __asm__ volatile("cpsie i");
    begin = REG(0x40000024);
    REG(0x40000c00) = 1;
    while (updates < 5)
        __asm__ volatile("wfi");
    check("5 updates of TIM5 are 5 ms of TIM2", near(REG(0x40000024) - begin, 420000));
    REG(0x40000c00) = 0;

    /* USART6's line is 71. */
    REG(0xe000e108) = 1 << (71 - 64);
    REG(0x4001140c) = 1 << 13 | 1 << 3 | 1 << 6;
    check("USART6 interrupts once", usarts == 1);

    /* Sector 11, the last one. */
    volatile uint32_t *flash = (volatile uint32_t *)0x080e0000;
    *flash = 0;
    check("flash that is locked keeps what it has", *flash == 0xffffffff);
    REG(0x40023c04) = 0x45670123;
    REG(0x40023c04) = 0xcdef89ab;
    REG(0x40023c10) = 1 | 2 << 8;
    *flash = 0x12345678;
    check("flash is programmed", *flash == 0x12345678 && flash[1] == 0xffffffff);
    REG(0x40023c10) = 2 | 11 << 3;
    REG(0x40023c10) |= 1 << 16;
    while (REG(0x40023c0c) & 1 << 16)
        ;
    check("flash is erased", *flash == 0xffffffff);

    REG(0x50060800) = 4;
    while (!(REG(0x50060804) & 1))
        ;
    uint32_t random = REG(0x50060808);
    check("random numbers differ", random != REG(0x50060808));

    REG(0x40005400) = 1;
    REG(0x40005400) = 1 | 1 << 8;
    while (!(REG(0x40005414) & 1))
        ;
    REG(0x40005410) = 0xa0;
    check("nobody on I2C answers", (REG(0x40005414) & (1 << 10 | 1 << 1)) == 1 << 10);

    REG(0x40013000) = 1 << 6 | 1 << 2;
    REG8(0x4001300c) = 0x9f;
    check("nobody on SPI answers", (REG(0x40013008) & 1) && REG8(0x4001300c) == 0xff && !(REG(0x40013008) & 1));

    REG(0x40020000) = (REG(0x40020000) & ~0xc0cu) | 0x404; /* GPIOA: PA1 and PA5 are outputs; ODR, BSRR, IDR */
    REG(0x40020014) = 0;
    REG(0x40020018) = 0x22;
    REG(0x40020018) = 0x2 << 16;
    check("a pin reads as it is set", (REG(0x40020010) & 0x22) == 0x20);

    /* SDIO is in no chip file. */
    REG(0x40012c08) = 0x55;
    check("what nothing models reads as it was written", REG(0x40012c08) == 0x55);

    /* 4 ms of the watchdog: 40 kHz by 4, 40 of them. It is fed, and then is not. */
    REG(0x40003000) = 0x5555;
    REG(0x40003008) = 40;
    REG(0x40003000) = 0xcccc;
    begin = REG(0x40000024);
    while (REG(0x40000024) - begin < 8 * 84000)
        REG(0x40003000) = 0xaaaa;
    while (REG(0x40000024) - begin < 15 * 84000)
        ;

    read_nothing();
    check("where there is nothing there is a bus fault", faults == 1);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
