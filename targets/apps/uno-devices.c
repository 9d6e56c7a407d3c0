/* Arduino Uno and Mega 2560: what the chip's devices answer, and how long they take. Each line is a name and a number that
   arithmetic tells, from the data sheet. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/wdt.h>
#include <stdint.h>

#include "usart.h"

static volatile uint16_t events;

ISR(TIMER1_OVF_vect) { events++; }
ISR(TIMER1_COMPA_vect) { events++; }
ISR(TIMER1_CAPT_vect) { events++; }
ISR(WDT_vect) { events++; }

static void ports(void)
{
    DDRB = 0x20;
    PORTB = 0x20;
    print_number("output", PINB);
    PORTB |= 1 << 0;
    PORTB |= 1 << 1;
    print_number("read back", PORTB);
    print_number("pulled up", PINB);
    PINB = 0x21;
    print_number("toggled", PORTB);
    /* One bit alone, though the others that are 1 are read with it. */
    __asm__ volatile("sbi %0, 1" ::"I"(_SFR_IO_ADDR(PINB)));
    print_number("toggled by sbi", PORTB);
    DDRB = PORTB = 0;
}

/* Counts the interrupts of TIMER1 in a mode, in 50 ms of TIMER0, with TOP 999 where the mode has it in a register. */
static void mode(const char *name, uint8_t wgm, uint8_t interrupt)
{
    TCCR1A = wgm & 3;
    TCCR1B = (wgm >> 2) << WGM12 | 1 << CS11;
    ICR1 = OCR1A = 999;
    TCNT1 = 0;
    TCCR0A = 1 << WGM01;
    OCR0A = 249;
    TCNT0 = 0;
    TCCR0B = 1 << CS01 | 1 << CS00;
    TIFR0 = TIFR1 = 0xff;
    events = 0;
    TIMSK1 = interrupt;
    for (uint8_t ms = 0; ms < 50; ms++) {
        while (!(TIFR0 & 1 << OCF0A))
            ;
        TIFR0 = 1 << OCF0A;
    }
    TIMSK1 = 0;
    print_number(name, events);
}

static void modes(void)
{
    sei();
    mode("normal", 0, 1 << TOIE1);
    mode("two ways to 255", 1, 1 << TOIE1);
    mode("two ways to 1023", 3, 1 << TOIE1);
    mode("match", 4, 1 << OCIE1A);
    mode("fast to 511", 6, 1 << TOIE1);
    mode("two ways to ICR", 8, 1 << TOIE1);
    mode("two ways to OCR", 11, 1 << TOIE1);
    mode("ICR", 12, 1 << ICIE1);
    mode("fast to ICR", 14, 1 << TOIE1);
    mode("fast to OCR", 15, 1 << TOIE1);
    TCCR1A = 0;
    TCCR1B = 0;
    TCNT1 = 0x1234;
    print_number("sixteen bits", TCNT1);
}

/* TIMER1 from here on counts cycles by 8. */
static void start(void)
{
    TCCR1A = 0;
    TCCR1B = 1 << CS11;
    TCNT1 = 0;
}

static void latch(void)
{
    uint16_t torn = 0;
    start();
    for (uint16_t turn = 0, before = TCNT1; turn < 2000; turn++) {
        uint16_t now = TCNT1;
        torn += (uint16_t)(now - before) > 100;
        before = now;
    }
    print_number("torn", torn);
}

static void serial(void)
{
    /* Until all before is sent. */
    for (volatile uint16_t turn = 0; turn < 1000; turn++)
        ;
    UBRR0 = 103;
    UCSR0A = 1 << TXC0;
    start();
    for (uint8_t byte = 0; byte < 10; byte++)
        put('.');
    uint16_t written = TCNT1;
    while (!(UCSR0A & 1 << TXC0))
        ;
    uint16_t sent = TCNT1;
    UBRR0 = 0;
    put('\n');
    print_number("written", written);
    print_number("sent", sent);
}

static void converter(void)
{
    uint16_t last = 0;
    ADMUX = 1 << REFS0;
    ADCSRA = 1 << ADEN | 1 << ADPS2 | 1 << ADPS1 | 1 << ADPS0;
    for (uint8_t turn = 0; turn < 3; turn++) {
        start();
        ADCSRA |= 1 << ADSC;
        while (ADCSRA & 1 << ADSC)
            ;
        last = TCNT1;
        print_number("converted", last);
    }
    ADCSRA = 0;
}

/* TIMER1 counts cycles by 1024. */
static uint16_t watched(uint8_t feeds)
{
    events = 0;
    wdt_reset();
    WDTCSR = 1 << WDCE | 1 << WDE;
    WDTCSR = 1 << WDIE;
    TCCR1B = 1 << CS12 | 1 << CS10;
    TCNT1 = 0;
    while (events < 5 && TCNT1 < 2000)
        if (feeds)
            wdt_reset();
    uint16_t after = TCNT1;
    WDTCSR = 1 << WDCE | 1 << WDE;
    WDTCSR = 0;
    return after;
}

static void watchdog(void)
{
    print_number("five bites", watched(0));
    print_number("fed", watched(1));
    /* One that is skipped, and one that is not, each in the middle of a block. */
    uint8_t zero = 0;
    events = 0;
    WDTCSR = 1 << WDCE | 1 << WDE;
    WDTCSR = 1 << WDIE;
    TCNT1 = 0;
    while (TCNT1 < 1300)
        __asm__ volatile("sbrc %0, 0\n\twdr\n\tnop" ::"r"(zero));
    print_number("skipped", events);
    events = 0;
    TCNT1 = 0;
    while (TCNT1 < 1300)
        __asm__ volatile("sbrs %0, 0\n\twdr\n\tnop" ::"r"(zero));
    print_number("not skipped", events);
    WDTCSR = 1 << WDCE | 1 << WDE;
    WDTCSR = 0;
}

static uint8_t step(uint8_t control)
{
    TWCR = 1 << TWINT | 1 << TWEN | control;
    while (!(TWCR & 1 << TWINT))
        ;
    return TWSR & 0xf8;
}

static void buses(void)
{
    TWBR = 72;
    uint8_t started = 0, addressed = 0;
    start();
    for (uint8_t address = 8; address < 16; address++) {
        started = step(1 << TWSTA);
        TWDR = address << 1;
        addressed = step(0);
        TWCR = 1 << TWINT | 1 << TWEN | 1 << TWSTO;
        while (TWCR & 1 << TWSTO)
            ;
    }
    print_number("eight addresses", TCNT1);
    print_number("started", started);
    print_number("nobody", addressed);
    SPCR = 1 << SPE | 1 << MSTR | 1 << SPR1;
    start();
    SPDR = 0x9f;
    while (!(SPSR & 1 << SPIF))
        ;
    uint16_t after = TCNT1;
    print_number("received", SPDR);
    print_number("transferred", after);
}

int main(void)
{
    UCSR0B = 1 << TXEN0;
    CLKPR = 1 << CLKPCE;
    CLKPR = 0;
    ports();
    modes();
    latch();
    serial();
    converter();
    watchdog();
    buses();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
