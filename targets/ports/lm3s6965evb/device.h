/* TI Stellaris LM3S6965 board: Cortex-M3, at 12.5 MHz out of reset. */
#pragma once
#define UART0 0x4000c000
#define SYSTICK_HZ 12500000
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
