/* Work for sketches. */
#pragma once
#include <stdint.h>

static __attribute__((noinline)) uint16_t count_primes(uint16_t below)
{
    uint16_t found = 0;
    for (uint16_t n = 2; n < below; n++) {
        uint16_t divisor = 2;
        while (divisor * divisor <= n && n % divisor)
            divisor++;
        found += divisor * divisor > n;
    }
    return found;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
