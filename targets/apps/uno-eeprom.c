/* Arduino Uno: EEPROM by avr-libc's functions and by its interrupt, and the registers for a program's own use. Each line
   that it prints is a promise of the data sheet. */
#include <avr/eeprom.h>
#include <avr/interrupt.h>
#include <avr/io.h>
#include <stdint.h>
#include <string.h>

#include "usart.h"

enum { LAST = E2END };

/* Its value is in the file, and a programmer puts it into the EEPROM. */
static uint8_t EEMEM remembered = 42;

static uint8_t read(uint16_t address) { return eeprom_read_byte((const uint8_t *)address); }

/* By a store that only the address in its register tells apart. */
static __attribute__((noinline, noclone)) uint8_t read_through(volatile uint8_t *control, uint8_t address)
{
    EEAR = address;
    *control = 1 << EERE;
    return EEDR;
}

/* Ticks of 64 cycles that a function takes. */
static uint16_t ticks(void (*function)(void))
{
    TCNT1 = 0;
    function();
    return TCNT1;
}

static void write_one(void)
{
    eeprom_write_byte((uint8_t *)5, 0x5a);
    eeprom_busy_wait();
}

static void update_the_same(void)
{
    eeprom_update_byte((uint8_t *)5, 0x5a);
    eeprom_busy_wait();
}

/* The order of both bits, as in avr-libc's functions. */
static __attribute__((noinline)) void start(uint8_t mode, uint16_t address, uint8_t byte)
{
    EECR = mode;
    EEAR = address;
    EEDR = byte;
    uint8_t status = SREG;
    cli();
    EECR |= 1 << EEMPE;
    EECR |= 1 << EEPE;
    SREG = status;
}

static void program(void)
{
    start(1 << EEPM1, 5, 0x0f);
    eeprom_busy_wait();
}

static volatile uint8_t written;

/* Writes 16 bytes, one after the other. */
ISR(EE_READY_vect)
{
    if (written < 16)
        start(1 << EERIE, 100 + written, written * 3);
    else
        EECR = 0;
    written++;
}

int main(void)
{
    UCSR0B = 1 << TXEN0;
    TCCR1B = 1 << CS11 | 1 << CS10;
    print_number("from the file", eeprom_read_byte(&remembered));
    print_number("erased", read(1) + read(LAST));
    print_number("write takes about 3.3 ms", ticks(write_one) / 100);
    print_number("written", read(5));
    print_number("update of the same takes", ticks(update_the_same) / 100);
    print_number("programming takes about 1.8 ms", ticks(program) / 100);
    print_number("programmed", read(5));
    start(1 << EEPM0, 5, 0x12);
    eeprom_busy_wait();
    print_number("erased again", read(5));

    /* Neither without EEMPE, nor with both bits at once, nor later than four cycles. */
    EEAR = 6;
    EEDR = 1;
    EECR = 1 << EEPE;
    EECR = 1 << EEMPE | 1 << EEPE;
    __builtin_avr_delay_cycles(12);
    EECR |= 1 << EEPE;
    print_number("not started", EECR);

    char text[] = "EEPROM of an Uno", back[sizeof text];
    eeprom_write_block(text, (void *)(LAST - 40), sizeof text);
    eeprom_read_block(back, (const void *)(LAST - 40), sizeof text);
    print_number("block differs", memcmp(text, back, sizeof text) != 0);
    eeprom_update_block("EEPROM of a Mega", (void *)(LAST - 40), sizeof text);
    eeprom_read_block(back, (const void *)(LAST - 40), sizeof text);
    print_number("updated block differs", strcmp(back, "EEPROM of a Mega") != 0);
    eeprom_write_dword((uint32_t *)200, 0x12345678);
    eeprom_write_float((float *)204, 1.5f);
    print_number("dword", eeprom_read_dword((const uint32_t *)200));
    print_number("twice the float", (uint32_t)(2 * eeprom_read_float((const float *)204)));

    eeprom_busy_wait();
    EECR = 1 << EERIE;
    sei();
    uint32_t turns = 0;
    while (written <= 16)
        turns++;
    cli();
    uint16_t sum = 0;
    for (uint8_t index = 0; index < 16; index++)
        sum += read(100 + index);
    print_number("sum of 16 bytes by interrupt", sum);
    print_number("in between the program went on", turns > 1000);

    GPIOR0 = 0x21;
    GPIOR1 = 0x43;
    GPIOR2 = 0x65;
    GPIOR0 |= 1 << 7;
    print_number("read by a pointer", read_through(&EECR, 101));
    print_number("general", GPIOR0 + GPIOR1 + GPIOR2);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
