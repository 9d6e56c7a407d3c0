/* LPC1768: Cortex-M3 at 4 MHz, by its RC oscillator. No machine of QEMU's: harness --chip. */
#pragma once
#define UART0 0x4000c000
#define SYSTICK_HZ 4000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
