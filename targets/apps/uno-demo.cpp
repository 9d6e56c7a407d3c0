/* A sketch that computes, reads an analog input, prints and waits, with named bins. As it is, the bins are phases
   (zone/zone.h), which harness counts. With SAMPLER it profiles itself as people do on the chip: an interrupt, a thousand
   times a second, looks what it interrupts and counts that in RAM; each second it prints the counts and clears them. */
#include <Arduino.h>
#include <avr/sleep.h>

#include "primes.h"
#include "zone.h"

static const unsigned TURNS = 40;

#ifdef SAMPLER

enum Bin : uint8_t { other, compute, analog, print, pause, IN_DELAY, BINS };
static const char NAMES[BINS][8] PROGMEM = { "other", "compute", "analog", "print", "pause", "delay" };
/* Flash in pieces of 256 bytes; the last bin has what lies behind. */
static const uint8_t PIECES = 24;

static volatile uint8_t bin;
static volatile uint16_t of_bins[BINS], of_pieces[PIECES], samples;
/* Cycles in the interrupt, without what saves registers. */
static volatile uint32_t overhead;

#define PF(name) (bin = name)

/* The interrupted address, in words: on top of the stack, the high byte first. No instruction here changes the flags. */
static volatile uint16_t interrupted_pc;

static void sample() __attribute__((signal, used));

ISR(TIMER1_COMPA_vect, ISR_NAKED)
{
    __asm__ volatile("push r24\n\tpush r30\n\tpush r31\n\tin r30, __SP_L__\n\tin r31, __SP_H__\n\t"
                     "ldd r24, Z+4\n\tsts %0+1, r24\n\tldd r24, Z+5\n\tsts %0, r24\n\t"
                     "pop r31\n\tpop r30\n\tpop r24\n\tjmp %x1"
                     : : "i"(&interrupted_pc), "i"(sample));
}

static void sample()
{
    uint16_t start = TCNT1;
    uint8_t piece = interrupted_pc >> 7;
    of_pieces[piece < PIECES ? piece : PIECES - 1]++;
    of_bins[bin]++;
    samples++;
    overhead += TCNT1 - start;
}

static void begin_sampling()
{
    TCCR1A = 0;
    TCCR1B = 1 << WGM12 | 1 << CS10;
    OCR1A = F_CPU / 1000 - 1;
    TIMSK1 = 1 << OCIE1A;
}

static void print_share(const __FlashStringHelper *name, uint32_t part, uint32_t whole)
{
    uint16_t hundredths = (uint64_t)part * 10000 / whole;
    Serial.print(name);
    Serial.print(' ');
    Serial.print(hundredths / 100);
    Serial.print(hundredths % 100 < 10 ? F(".0") : F("."));
    Serial.println(hundredths % 100);
}

static void dump()
{
    TIMSK1 = 0;
    Serial.print(F("samples "));
    Serial.println(samples);
    for (uint8_t at = 0; at < BINS; at++)
        print_share((const __FlashStringHelper *)NAMES[at], of_bins[at], samples);
    print_share(F("overhead"), overhead, samples * (F_CPU / 1000));
    for (uint8_t at = 0; at < PIECES; at++) {
        if (!of_pieces[at])
            continue;
        Serial.print(F("0x"));
        Serial.print(at * 256, HEX);
        print_share(F(""), of_pieces[at], samples);
    }
    for (uint8_t at = 0; at < PIECES; at++)
        of_pieces[at] = at < BINS ? of_bins[at] = 0 : 0;
    samples = overhead = 0;
    TIMSK1 = 1 << OCIE1A;
}

static void dump_each_second()
{
    if (samples >= 1000)
        dump();
}

static void sampled_delay(unsigned long ms)
{
    uint8_t before = bin;
    bin = IN_DELAY;
    delay(ms);
    bin = before;
}
#define delay sampled_delay

#else

#define PF(name) PHASE(#name)
static void begin_sampling() {}
static void dump_each_second() {}

#endif

static volatile uint16_t primes;
static unsigned turn;

void setup()
{
    Serial.begin(115200);
    begin_sampling();
}

void loop()
{
    PF(compute);
    primes = count_primes(300);
    PF(analog);
    uint16_t light = 0;
    for (uint8_t times = 0; times < 8; times++)
        light += analogRead(A0);
    PF(print);
    Serial.print(F("turn "));
    Serial.print(turn);
    Serial.print(F(" primes "));
    Serial.print(primes);
    Serial.print(F(" light "));
    Serial.println(light);
    Serial.flush();
    PF(pause);
    delay(20);
    delayMicroseconds(500);
    PF(other);
    dump_each_second();
    if (++turn < TURNS)
        return;
    noInterrupts();
    sleep_enable();
    for (;;)
        sleep_cpu();
}
// SPDX-License-Identifier: MIT OR Apache-2.0
