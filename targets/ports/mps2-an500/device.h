/* Arm MPS2 with the AN500 image: Cortex-M7 with FPU at 25 MHz, SSRAM for code and data. */
#pragma once
#define UART0 0x40004000
#define SYSTICK_HZ 25000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
