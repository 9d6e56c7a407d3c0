/* Prints by polling USART0, which the program has switched on. */
#pragma once
#include <avr/io.h>
#include <stdint.h>
#include <stdlib.h>

/* A program may use a part of it. */
#define PRINTS static __attribute__((unused)) void

PRINTS put(char letter)
{
    while (!(UCSR0A & (1 << UDRE0)))
        ;
    UDR0 = letter;
}

PRINTS print(const char *text)
{
    for (; *text; text++)
        put(*text);
}

PRINTS print_number(const char *name, uint32_t number)
{
    char digits[12];
    print(name);
    put(' ');
    print(ultoa(number, digits, 10));
    put('\n');
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
