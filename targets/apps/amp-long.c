/* The same for seconds: what ci/bench measures. */
#define REPEAT 40
#include "amp.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
