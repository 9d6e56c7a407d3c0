/* ATmega2560: code and a table above 128 KiB of flash, where a word's address has a third byte. Calls lead there and back:
   direct, through pointers (by the linker's jumps in low flash), and by EIND. TIMER1 interrupts all of them. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/pgmspace.h>
#include <stdint.h>

#include "usart.h"

/* The linker puts this section at 0x30000. */
#define FAR __attribute__((section(".far"), noinline, used))

static volatile uint8_t interrupts;

FAR uint16_t far_mix(uint16_t x) { return (x << 5 | x >> 11) ^ 0x2f; }

static __attribute__((noinline)) uint16_t near_mix(uint16_t x) { return far_mix(x + 3) * 7; }

/* Its handler calls far code. */
ISR(TIMER1_COMPA_vect) { interrupts += far_mix(interrupts) ? 1 : 2; }

FAR uint16_t far_deeper(uint8_t depth, uint16_t x)
{
    volatile uint8_t local[5];
    local[depth % 5] = depth;
    return depth ? far_deeper(depth - 1, near_mix(x)) + local[depth % 5] : x;
}

FAR uint16_t far_add(uint16_t a, uint16_t b) { return a + b; }
FAR uint16_t far_multiply(uint16_t a, uint16_t b) { return near_mix(a) * b; }
static uint16_t near_divide(uint16_t a, uint16_t b) { return a / b; }
typedef uint16_t operation(uint16_t, uint16_t);
static operation *volatile operations[] = {far_add, far_multiply, near_divide};

FAR uint16_t by_pointers(void)
{
    uint16_t value = 7;
    for (uint8_t turn = 0; turn < 60; turn++)
        value = operations[turn % 3](value, turn + 1);
    return value;
}

/* Its table of labels has the linker's jumps, too. */
FAR uint16_t far_switch(uint8_t number)
{
    switch (number) {
    case 0: return near_mix(5);
    case 1: return far_mix(6);
    case 2: return number * 3;
    case 3: return 77;
    case 4: return far_deeper(2, 1);
    case 5: return 4711;
    case 6: return number * 13;
    case 7: return near_mix(number) + 1;
    default: return 1;
    }
}

/* Called without the linker's help: EIND has the third byte of its word's address. */
static __attribute__((noinline)) uint16_t by_eind(uint16_t x)
{
    register uint16_t value asm("r24") = x;
    asm volatile("ldi r30, hh8(pm(far_mix))\n\t"
                 "out %[eind], r30\n\t"
                 "ldi r30, lo8(pm(far_mix))\n\t"
                 "ldi r31, hi8(pm(far_mix))\n\t"
                 "eicall\n\t"
                 "out %[eind], __zero_reg__"
                 : "+r"(value)
                 : [eind] "I"(_SFR_IO_ADDR(EIND))
                 : "r18", "r19", "r20", "r21", "r22", "r23", "r26", "r27", "r30", "r31", "memory");
    return value;
}

static const uint8_t __attribute__((section(".fartable"))) table[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};

static __attribute__((noinline)) uint16_t sum_of_table(void)
{
    uint16_t sum = 0;
    for (uint8_t index = 0; index < sizeof table; index++)
        sum += pgm_read_byte_far(pgm_get_far_address(table) + index);
    return sum;
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
    for (uint8_t turn = 0; turn < 40; turn++) {
        sum = far_deeper(4, sum) + by_pointers();
        for (uint8_t number = 0; number < 10; number++)
            sum += far_switch(number);
    }
    TIMSK1 = 0;
    print_number("sum", sum);
    print_number("eind", by_eind(4));
    print_number("table", sum_of_table());
    print_number("interrupted", interrupts > 20);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
