/* A sketch that profiles itself as the first Arduino profilers did: a timer interrupts a thousand times a second, and counts one for
   the bin that is current. Two loops and a wait fill three bins; how much falls into each is what the board's clock decides. */
#include <Arduino.h>
#include <avr/sleep.h>

static const uint16_t SAMPLES = 3000;

static volatile uint8_t bin;
static volatile uint16_t counts[4];
static volatile uint16_t samples;

ISR(TIMER1_COMPA_vect)
{
    counts[bin]++;
    samples++;
}

static void __attribute__((noinline)) first()
{
    volatile long sum = 0;
    for (long i = 0; i < 8600; i++)
        sum += i;
}

static void __attribute__((noinline)) second()
{
    volatile long sum = 0;
    for (long i = 0; i < 29900; i++)
        sum += i;
}

void setup()
{
    Serial.begin(115200);
    /* 16 MHz by 64 is 250 kHz. */
    TCCR1A = 0;
    TCCR1B = 1 << WGM12 | 1 << CS11 | 1 << CS10;
    OCR1A = 249;
    TIMSK1 = 1 << OCIE1A;
}

void loop()
{
    bin = 1;
    first();
    bin = 2;
    second();
    bin = 3;
    delay(20);
    bin = 0;
    if (samples < SAMPLES)
        return;
    TIMSK1 = 0;
    unsigned long now = millis();
    Serial.print(F("bins "));
    for (uint8_t at = 1; at < 4; at++) {
        Serial.print(counts[at]);
        Serial.print(' ');
    }
    Serial.print(F("millis "));
    Serial.println(now);
    Serial.flush();
    noInterrupts();
    sleep_enable();
    for (;;)
        sleep_cpu();
}
// SPDX-License-Identifier: MIT OR Apache-2.0
