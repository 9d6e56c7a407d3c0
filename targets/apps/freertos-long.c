/* The same for some seconds instead of a fraction of one: what ci/bench measures. */
#define REPEAT 16
#include "freertos.c"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
