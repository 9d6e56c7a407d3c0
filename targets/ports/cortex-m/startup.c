/* Vector table, reset and the semihosting call of every Cortex-M port. Handlers have CMSIS names; an
   application that defines one replaces the default, which says where it was and exits with status 1. */
#include "board.h"
#include "text.h"

extern uint32_t __stack_top, __data_load, __data_start, __data_end, __bss_start, __bss_end;
extern void (*const __init_array_start[])(void), (*const __init_array_end[])(void);
int main(void);
_Noreturn void Reset_Handler(void);

_Noreturn void Default_Handler(void)
{
    uint32_t exception;
    __asm__ volatile("mrs %0, ipsr" : "=r"(exception));
    print("unexpected exception %u\n", (unsigned)exception);
    board_exit(1);
}

#define DEFAULT __attribute__((weak, alias("Default_Handler")))
DEFAULT void NMI_Handler(void);
DEFAULT void HardFault_Handler(void);
DEFAULT void MemManage_Handler(void);
DEFAULT void BusFault_Handler(void);
DEFAULT void UsageFault_Handler(void);
DEFAULT void SecureFault_Handler(void);
DEFAULT void SVC_Handler(void);
DEFAULT void DebugMon_Handler(void);
DEFAULT void PendSV_Handler(void);
DEFAULT void SysTick_Handler(void);

__attribute__((section(".vectors"), used)) const void *const vectors[16] = {
    &__stack_top,
    Reset_Handler,
    NMI_Handler,
    HardFault_Handler,
    MemManage_Handler,
    BusFault_Handler,
    UsageFault_Handler,
    SecureFault_Handler,
    0, 0, 0,
    SVC_Handler,
    DebugMon_Handler,
    0,
    PendSV_Handler,
    SysTick_Handler,
};

#define UNUSED __attribute__((unused))
__attribute__((naked, noinline)) long semihost(long operation UNUSED, const void *block UNUSED)
{
    __asm__("bkpt 0xab\n\tbx lr");
}

void Reset_Handler(void)
{
#ifdef __ARM_FP
    /* Coprocessors 10 and 11 (the FPU): full access. */
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20;
    __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
    for (uint32_t *from = &__data_load, *to = &__data_start; to != &__data_end;)
        *to++ = *from++;
    for (uint32_t *to = &__bss_start; to != &__bss_end;)
        *to++ = 0;
    console_init();
    for (void (*const *f)(void) = __init_array_start; f != __init_array_end; f++)
        (*f)();
    board_exit(main());
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
