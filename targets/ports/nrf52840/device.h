/* nRF52840: Cortex-M4 with FPU at 64 MHz. No machine of QEMU's: harness --chip. */
#pragma once
#define UART0 0x40002000
#define SYSTICK_HZ 64000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
