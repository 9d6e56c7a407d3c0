/* faulting-exit-riscv.c with a handler that resets the machine. */
#define FAULT_RESETS
#include "faulting-exit-riscv.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
