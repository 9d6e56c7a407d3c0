/* BBC micro:bit: nRF51822, Cortex-M0 (QEMU gives it a SysTick, at 64 MHz). */
#pragma once
#define UART0 0x40002000
#define SYSTICK_HZ 64000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
