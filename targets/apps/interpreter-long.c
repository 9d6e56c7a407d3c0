/* The same for seconds: what ci/bench measures. */
#define REPEAT 60
#include "interpreter.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
