/* faulting-exit-arm.c with a handler that resets the machine. */
#define FAULT_RESETS
#include "faulting-exit-arm.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
