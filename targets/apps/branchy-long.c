/* The same for seconds: what ci/bench measures. */
#define REPEAT 400
#include "branchy.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
