/* Semihosting for firmware that is built in another tree: a line of a name and a number, and the end. */
#pragma once

static void host(unsigned long operation, const void *argument)
{
#ifdef __riscv
    register unsigned long a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = argument;
    __asm__ volatile(".option push\n.option norvc\n.balign 16\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n.option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
#else
    register unsigned long r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
#endif
}

static void say(const char *name, unsigned long number)
{
    char digits[24], *at = digits + sizeof digits - 1;
    *at = 0;
    *--at = '\n';
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    *--at = ' ';
    host(0x04, name);
    host(0x04, at);
}

/* The exit's reason, which on 64-bit processors is in a block with the status. */
static void finish(void)
{
    static const unsigned long reason_and_status[2] = { 0x20026, 0 };
    host(0x18, sizeof(long) == 8 ? (const void *)reason_and_status : (const void *)0x20026);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
