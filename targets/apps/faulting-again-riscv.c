/* A handler that returns without having mended anything: the same instruction faults again, for ever. */
#define FAULT_AGAIN
#include "faulting-riscv.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
