/* Two harts with different work (QEMU's -smp 2): hart 1 waits for a flag, works and answers; hart 0 works
   meanwhile, waits for the answer and ends the run. */
#include "board.h"
#include "text.h"
#include "work.h"

#ifndef REPEAT
#define REPEAT 1
#endif

static volatile uint32_t go, answered, answer;

static __attribute__((noipa)) uint32_t work_of_hart0(void)
{
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= 60 * REPEAT; i++)
        sum = mix(sum, matrix_unit(i));
    return sum;
}

static __attribute__((noipa)) uint32_t work_of_hart1(void)
{
    uint32_t sum = 0;
    for (uint32_t i = 1; i <= 400 * REPEAT; i++)
        sum = mix(sum, fib(10 + (i & 3)));
    return sum;
}

static __attribute__((noipa)) void wait_for(volatile uint32_t *flag)
{
    while (!*flag)
        ;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static __attribute__((noipa)) void raise_flag(volatile uint32_t *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

void secondary_main(uintptr_t hart)
{
    if (hart != 1)
        return;
    wait_for(&go);
    answer = work_of_hart1();
    raise_flag(&answered);
}

int main(void)
{
    print("smp: hart 0 starts hart 1\n");
    raise_flag(&go);
    uint32_t mine = work_of_hart0();
    wait_for(&answered);
    print("hart 0 %08x, hart 1 %08x\n", (unsigned)mine, (unsigned)answer);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
