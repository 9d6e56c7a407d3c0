/* RP2040: Cortex-M0+ at 125 MHz once its PLL runs. No machine of QEMU's: harness --chip. */
#pragma once
#define UART0 0x40034000
#define SYSTICK_HZ 12000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
