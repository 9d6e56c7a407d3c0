/* Arm MPS2 with the AN521 image: two Cortex-M33 at 20 MHz, the SSE-200 subsystem. Both boot in the secure state, the second
   one when the first says so. QEMU's second has an FPU, its first has none; only secure aliases are used. */
#pragma once
#define UART0 0x50200000
#define SYSTICK_HZ 20000000
#define CPU_IDENTITY 0x5001f000
#define SYSCTL 0x50021000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
