/* A sketch as people write it, with Arduino's core as its package has it: millis() and delay() are Timer0's interrupt,
   tone() is Timer2's, analogRead() waits for the converter. After five turns it sleeps for ever. */
#include <Arduino.h>
#include <avr/sleep.h>

#include "primes.h"

static const unsigned TURNS = 5;

static unsigned turn;
static volatile uint16_t primes;

void setup()
{
    Serial.begin(115200);
    pinMode(LED_BUILTIN, OUTPUT);
    tone(8, 2000, 10);
}

void loop()
{
    digitalWrite(LED_BUILTIN, turn & 1);
    primes = count_primes(200);
    int light = analogRead(A0);
    delay(20);
    Serial.print(F("turn "));
    Serial.print(turn);
    Serial.print(F(" primes "));
    Serial.print(primes);
    Serial.print(F(" light "));
    Serial.println(light);
    if (++turn < TURNS)
        return;
    unsigned long ms = millis(), us = micros();
    Serial.println(us / 1000 - ms <= 1 && ms >= 20 * TURNS ? F("clocks agree") : F("clocks differ"));
    Serial.flush();
    noInterrupts();
    sleep_enable();
    for (;;)
        sleep_cpu();
}
// SPDX-License-Identifier: MIT OR Apache-2.0
