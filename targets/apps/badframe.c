/* Frame pointers that are none (RISC-V, compiled with -fno-omit-frame-pointer): in devices, in a hole, at the end
   of RAM, pointing at themselves, below sp, while code runs that needs none; and a chain of frames whose middle
   is bent in the same ways while functions above it work, and is put right before they return. */
#include "board.h"
#include "text.h"

#define NOIPA __attribute__((noipa))

#define AT(name, address)                                                                                         \
    void name(void);                                                                                              \
    __asm__(".text\n.globl " #name "\n.type " #name ",%function\n" #name ":\n"                                    \
            "mv t0, s0\nli s0, " address "\nli t1, 20000\n1: addi t1, t1, -1\nbnez t1, 1b\nmv s0, t0\nret\n"      \
            ".size " #name ", . - " #name "\n");
/* The words that are read lie below the frame pointer: return address at -8, frame pointer at -16. */
AT(fp_in_clint, "0x0200c008")
AT(fp_in_uart, "0x10000010")
AT(fp_in_hole, "0x40000000")
AT(fp_at_ram_end, "0x88000000")
AT(fp_past_ram_end, "0x88000008")
AT(fp_is_zero, "0")
AT(fp_is_odd, "0x80001235")
AT(fp_is_all_ones, "-1")
/* Its own frame pointer, and a return address into itself. */
void fp_to_itself(void);
__asm__(".text\n.globl fp_to_itself\n.type fp_to_itself,%function\nfp_to_itself:\n"
        "addi sp, sp, -32\nsd s0, 0(sp)\naddi s0, sp, 32\nla t0, 1f\nsd t0, -8(s0)\nsd s0, -16(s0)\n"
        "li t1, 20000\n1: addi t1, t1, -1\nbnez t1, 1b\nld s0, 0(sp)\naddi sp, sp, 32\nret\n"
        ".size fp_to_itself, . - fp_to_itself\n");
/* A frame pointer below sp: two frames that point at each other, in .bss. */
uintptr_t ring[8] __attribute__((aligned(16)));
void fp_in_ring(void);
__asm__(".text\n.globl fp_in_ring\n.type fp_in_ring,%function\nfp_in_ring:\n"
        "mv t2, s0\nlla t0, ring\nlla t3, fp_in_hole\nsd t3, 8(t0)\naddi t4, t0, 48\nsd t4, 0(t0)\n"
        "sd t3, 40(t0)\naddi t4, t0, 16\nsd t4, 32(t0)\naddi s0, t0, 16\n"
        "li t1, 20000\n1: addi t1, t1, -1\nbnez t1, 1b\nmv s0, t2\nret\n.size fp_in_ring, . - fp_in_ring\n");

static volatile uint32_t sum;

/* A leaf's frame holds the frame pointer where others hold the return address. */
static NOIPA void leaf_works(uint32_t x)
{
    for (volatile int i = 0; i < 100; i++)
        x = x * 5 + 1;
    sum += x;
}
static NOIPA void works(uint32_t depth)
{
    if (depth)
        works(depth - 1);
    for (int i = 0; i < 4; i++)
        leaf_works(depth);
    sum++; /* no tail call */
}

/* frame[-1]: the return address; frame[-2]: the caller's frame pointer. */
static NOIPA void with_bent_frame(uintptr_t pointer, uintptr_t address)
{
    volatile uintptr_t *frame = __builtin_frame_address(0);
    uintptr_t old_pointer = frame[-2], old_address = frame[-1];
    frame[-2] = pointer == 1 ? (uintptr_t)frame : pointer == 2 ? (uintptr_t)frame - 16 : pointer;
    frame[-1] = address ? address : old_address;
    works(3);
    frame[-2] = old_pointer;
    frame[-1] = old_address;
    leaf_works(1); /* else the compiler reads both before it writes them */
}
static NOIPA void below(uint32_t depth, uintptr_t pointer, uintptr_t address)
{
    if (depth)
        below(depth - 1, pointer, address);
    else
        with_bent_frame(pointer, address);
    sum++;
}

int main(void)
{
    static const uintptr_t pointers[] = { 0, 1, 2, 0x0200c008, 0x10000010, 0x40000000, 0x88000000, 0x80001235, ~(uintptr_t)0 };
    static const uintptr_t addresses[] = { 0, 0xdeadbeef, (uintptr_t)pointers, (uintptr_t)with_bent_frame + 8, 1 };
    irq_disable();
    fp_in_clint();
    fp_in_uart();
    fp_in_hole();
    fp_at_ram_end();
    fp_past_ram_end();
    fp_is_zero();
    fp_is_odd();
    fp_is_all_ones();
    fp_to_itself();
    fp_in_ring();
    for (unsigned p = 0; p < sizeof pointers / sizeof *pointers; p++)
        for (unsigned a = 0; a < sizeof addresses / sizeof *addresses; a++)
            below(4, pointers[p], addresses[a]);
    print("badframe: %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
