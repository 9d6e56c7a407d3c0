/* STM32F407: Cortex-M4 with FPU at 168 MHz by its PLL, flash at 0x08000000. No machine of QEMU's: harness --chip. */
#pragma once
#define UART0 0x40004400 /* USART2 */
#define SYSTICK_HZ 168000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
