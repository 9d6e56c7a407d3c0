/* Two harts (QEMU's -smp 2), of which one changes what memory there is while both work: `virt`'s flash, told so, answers
   with its identity instead of its contents, and QEMU makes it a device for that time. What it had before is freed while
   the harts go on. */
#include "board.h"
#include "text.h"
#include "work.h"

static volatile uint32_t go, answered, answer;

/* JEDEC's query of a CFI flash, and back to reading. */
#define FLASH ((volatile uint32_t *)0x20000000)
#define READ_IDENTITY 0x00900090
#define READ_ARRAY 0x00ff00ff

static __attribute__((noipa)) void wait_for(volatile uint32_t *flag)
{
    while (!*flag)
        ;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static __attribute__((noipa)) void raise_flag(volatile uint32_t *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

static __attribute__((noipa)) uint32_t identify(void)
{
    *FLASH = READ_IDENTITY;
    uint32_t maker = *FLASH;
    *FLASH = READ_ARRAY;
    return maker;
}

void secondary_main(uintptr_t hart)
{
    if (hart != 1)
        return;
    wait_for(&go);
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= 400; i++)
        sum = mix(sum, fib(10 + (i & 3)));
    answer = sum;
    raise_flag(&answered);
}

int main(void)
{
    print("smp-remap: the flash is %08x\n", (unsigned)identify());
    raise_flag(&go);
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= 60; i++) {
        for (uint32_t j = 0; j < 4; j++)
            sum = mix(sum, identify());
        sum = mix(sum, matrix_unit(i));
    }
    wait_for(&answered);
    print("hart 0 %08x, hart 1 %08x\n", (unsigned)sum, (unsigned)answer);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
