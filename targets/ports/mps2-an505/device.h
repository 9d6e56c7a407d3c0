/* Arm MPS2 with the AN505 image: Cortex-M33 at 20 MHz. It boots in the secure state, vectors at 0x10000000; only secure aliases are used. */
#pragma once
#define UART0 0x50200000
#define SYSTICK_HZ 20000000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
