/* A stack pointer that is none, while code runs on that needs no stack: in devices, in a hole, at the end of
   RAM, nowhere. A profiler that believes it reads a device, or too much. And a return address that is
   garbage while a function works, and is put right before it returns. */
#include "board.h"
#include "text.h"

#define NOIPA __attribute__((noipa))

#ifdef __riscv
#define AT(name, address)                                                                                         \
    void name(void);                                                                                              \
    __asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n"                                    \
            "mv t0, sp\nli sp, " address "\nli t1, 20000\n1: addi t1, t1, -1\nbnez t1, 1b\nmv sp, t0\nret\n"      \
            ".size " #name ", . - " #name "\n");
AT(sp_in_clint, "0x0200bff8")
AT(sp_in_uart, "0x10000000")
AT(sp_in_hole, "0x40000000")
AT(sp_at_ram_end, "0x87fffff0")
AT(sp_is_zero, "0")
AT(sp_is_odd, "0x80001235")
AT(sp_is_all_ones, "-1")
#else
#define AT(name, address)                                                                                         \
    void name(void);                                                                                              \
    __asm__(".syntax unified\n.thumb\n.text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n"           \
            "mov r2, sp\nldr r1, =" address "\nmov sp, r1\nmovw r1, #20000\n1: subs r1, #1\nbne 1b\n"             \
            "mov sp, r2\nbx lr\n.ltorg\n.size " #name ", . - " #name "\n");
AT(sp_in_clint, "0xe000e018") /* SysTick's value */
AT(sp_in_uart, "0x40004000")
AT(sp_in_hole, "0x10000000")
AT(sp_at_ram_end, "0x203ffff0")
AT(sp_is_zero, "0")
AT(sp_is_odd, "0x20001234")
AT(sp_is_all_ones, "0xfffffffc")
#endif

static NOIPA void work(void)
{
    for (volatile int i = 0; i < 1000; i++)
        ;
}

static volatile uintptr_t *find(uintptr_t value, volatile uintptr_t *from)
{
    for (int i = 0; i < 64; i++)
        if (from[i] == value)
            return from + i;
    return 0;
}

/* Works while its return address, wherever the compiler keeps it, is something else. */
static NOIPA int with_return_address(uintptr_t other)
{
    volatile uintptr_t here = 0;
    uintptr_t address = (uintptr_t)__builtin_return_address(0);
    volatile uintptr_t *slot = find(address, &here);
    if (!slot)
        return 0;
    *slot = other;
    for (int i = 0; i < 20; i++)
        work();
    *slot = address;
    return 1;
}

int main(void)
{
    static const uintptr_t data[4] = { 1, 2, 3, 4 };
    int found = 1;
    irq_disable();
    sp_in_clint();
    sp_in_uart();
    sp_in_hole();
    sp_at_ram_end();
    sp_is_zero();
    sp_is_odd();
    sp_is_all_ones();
    const uintptr_t others[] = { 0xdeadbeef, (uintptr_t)data, (uintptr_t)with_return_address + 8, 0x10000000, ~(uintptr_t)0 };
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
        found &= with_return_address(others[i]);
    print("badsp: %s\n", found ? "ok" : "return address not found");
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
