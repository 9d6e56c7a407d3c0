/* Netduino Plus 2: STM32F405, Cortex-M4 with FPU at 168 MHz, flash at 0x08000000 (seen at 0 too). */
#pragma once
#define UART0 0x40011000
#define SYSTICK_HZ 168000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
