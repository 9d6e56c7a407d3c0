/* Arduino Uno: zones, phases and marks (zone/zone.h) of known lengths, under the interrupts of TIMER1, which have a zone
   and marks of their own. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <stdbool.h>
#include <stdint.h>

#include "zone.h"

enum { ROUNDS = 50, DEPTH = 6 };

static volatile uint16_t ticks;
static volatile uint8_t zero;

ISR(TIMER1_COMPA_vect)
{
    ZONE("tick");
    uint16_t tick = ticks + 1;
    ticks = tick;
    MARK("ticks", tick);
    /* As long as a delay in a handler is not to be: nothing of it belongs to what it interrupts. */
    __asm__ volatile(".rept 10\n\tnop\n\t.endr");
}

/* 1 + 2 * 200 instructions. */
static inline __attribute__((always_inline)) void spin(void)
{
    uint8_t left;
    __asm__ volatile("ldi %0, 200\n1:\tdec %0\n\tbrne 1b" : "=d"(left));
}

static __attribute__((noinline)) void scoped(uint8_t way)
{
    ZONE("scoped");
    if (way == 1)
        return;
    __asm__ volatile(".rept 5\n\tnop\n\t.endr");
}

static __attribute__((noinline)) uint16_t walk(uint8_t depth)
{
    ZONE("walk");
    return depth ? walk(depth - 1) + depth : zero;
}

static __attribute__((noinline, unused)) void dropped(void)
{
    ZONE("dropped");
    PHASE("dropped");
}

static __attribute__((noinline, noclone)) void marks(uint8_t byte, int8_t small, uint16_t word, int32_t wide, bool is)
{
    /* The values are there with ZONE_OFF, too. */
    __asm__ volatile("" : : "r"(byte), "r"(small), "r"(word), "r"(wide), "r"(is));
    MARK("byte", byte);
    MARK("small", small);
    MARK("word", word);
    MARK("wide", wide);
    MARK("is", is);
    MARK("constant", 40000U);
    MARK("negative", (int8_t)-5);
}

int main(void)
{
    TCCR1A = 0;
    TCCR1B = 1 << WGM12 | 1 << CS10;
    OCR1A = 1499;
    TIMSK1 = 1 << OCIE1A;
    sei();
    PHASE("exactly");
    for (uint8_t round = 0; round < ROUNDS; round++) {
        ZONE_BEGIN("exactly");
        spin();
        ZONE_BEGIN("inner");
        __asm__ volatile(".rept 20\n\tnop\n\t.endr");
        ZONE_END("inner");
        ZONE_END("exactly");
        scoped(round & 1);
        walk(DEPTH);
    }
    marks(200, -3, 50000U, -70000L, true);
    cli();
    PHASE("alone");
    spin();
    PHASE("end");
    sleep_enable();
    for (;;)
        sleep_cpu();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
