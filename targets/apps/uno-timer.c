/* Arduino Uno: TIMER1 interrupts what is at work, also calls on their way in and out; a handler that calls. At the end it
   sleeps with interrupts off, which nothing ends. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <stdint.h>

#include "usart.h"

enum { INTERRUPTS = 200 };

static volatile uint8_t interrupts;
static volatile uint16_t mixed;

static __attribute__((noinline)) uint16_t mix(uint16_t x) { return (x << 3 | x >> 13) + 1; }

ISR(TIMER1_COMPA_vect)
{
    interrupts++;
    mixed = mix(mixed);
}

static __attribute__((noinline)) uint16_t deeper(uint8_t depth, uint16_t x)
{
    volatile uint8_t local[9];
    local[depth % 9] = depth;
    return depth ? deeper(depth - 1, mix(x)) + local[depth % 9] : x;
}

int main(void)
{
    UCSR0B = 1 << TXEN0;
    TCCR1A = 0;
    TCCR1B = 1 << WGM12 | 1 << CS10;
    OCR1A = 997;
    TIMSK1 = 1 << OCIE1A;
    sei();
    uint16_t sum = 1;
    while (interrupts < INTERRUPTS) {
        sum = deeper(6, sum);
        /* What restores the flag in the middle of a block. */
        uint8_t status = SREG;
        cli();
        sum ^= mixed;
        SREG = status;
        /* QEMU finds a device here, starts the instruction again, and takes in between what was held off. */
        sum += UCSR0A & 1;
    }
    cli();
    print("200 interrupts\n");
    sleep_enable();
    for (;;)
        sleep_cpu();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
