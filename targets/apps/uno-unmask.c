/* Arduino Uno: an interrupt that waits is taken one instruction after it has been allowed, wherever that is. The handler
   notes how many instructions that was, and the program counts them in a register. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <stdint.h>

#include "usart.h"

static volatile uint8_t seen, taken;

/* The transmitter has room, so that its interrupt waits from when it is enabled. */
ISR(USART_UDRE_vect, ISR_NAKED)
{
    __asm__ volatile("sts seen, r18\n\t"
                     "push r24\n\t"
                     "in r24, __SREG__\n\t"
                     "push r24\n\t"
                     "lds r24, taken\n\t"
                     "inc r24\n\t"
                     "sts taken, r24\n\t"
                     "ldi r24, 1 << 3\n\t" /* TXEN0 */
                     "sts 0xc1, r24\n\t"   /* UCSR0B */
                     "pop r24\n\t"
                     "out __SREG__, r24\n\t"
                     "pop r24\n\t"
                     "reti");
}

/* Executes `code` while the interrupt waits. r18 counts, r19 has the flag's bit, r20 none. */
#define WAITING(name, code)                                                                                            \
    do {                                                                                                               \
        seen = 255;                                                                                                    \
        taken = 0;                                                                                                     \
        while (!(UCSR0A & 1 << UDRE0))                                                                                 \
            ;                                                                                                          \
        UCSR0B = 1 << TXEN0 | 1 << UDRIE0;                                                                             \
        __asm__ volatile("clr r18\n\tldi r19, 0x80\n\tclr r20\n\t" code "\n\tcli" ::: "r18", "r19", "r20", "memory");  \
        UCSR0B = 1 << TXEN0;                                                                                           \
        print_number(name, seen * 10u + taken);                                                                        \
    } while (0)

#define COUNT "inc r18\n\t"
#define LONG COUNT COUNT COUNT COUNT COUNT COUNT COUNT COUNT COUNT COUNT COUNT COUNT

int main(void)
{
    cli();
    UCSR0B = 1 << TXEN0;
    WAITING("sei", "sei\n\t" LONG);
    WAITING("sei, cli", "sei\n\tcli\n\t" LONG);
    WAITING("sei, one, cli", "sei\n\t" COUNT "cli\n\t" LONG);
    WAITING("sei, two, cli", "sei\n\t" COUNT COUNT "cli\n\t" LONG);
    WAITING("out", "out __SREG__, r19\n\t" LONG);
    WAITING("out, one, cli", "out __SREG__, r19\n\t" COUNT "cli\n\t" LONG);
    WAITING("out, out of none", "out __SREG__, r19\n\tout __SREG__, r20\n\t" LONG);
    WAITING("out of none", "out __SREG__, r20\n\t" LONG);
    WAITING("sei, load", "sei\n\tlds r21, seen\n\t" LONG);
    WAITING("sei, jump", "sei\n\trjmp .+0\n\t" LONG);
    WAITING("jumped over", "sbrc r19, 7\n\trjmp .+2\n\tsei\n\t" LONG);
    WAITING("skipped sei", "sbrs r19, 7\n\tsei\n\t" LONG);
    /* These come behind the instruction after the one that may be skipped. */
    WAITING("sei, skip not taken", "sei\n\tsbrc r19, 7\n\t" LONG);
    WAITING("sei, skip taken", "sei\n\tsbrs r19, 7\n\t" LONG);
    WAITING("out, two skips", "out __SREG__, r19\n\tsbrc r19, 7\n\tsbrs r19, 7\n\t" LONG);
    WAITING("sei not skipped", "sbrc r19, 7\n\tsei\n\t" LONG);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
