/* The same for seconds: what ci/bench measures. */
#define REPEAT 20
#include "smp.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
