/* String formatting as work. */
#include "work.h"
#include "text.h"

uint32_t format_unit(uint32_t seed, int lines)
{
    static const char *const names[] = { "pump", "valve", "fan", "heater" };
    char line[64];
    uint32_t sum = 0;
    seed |= 1;
    for (int i = 0; i < lines; i++) {
        uint32_t x = xorshift(&seed);
        int length = format(line, sizeof line, "%5d %8s %08x %u%%\n", (int)(x >> 20) - 2048,
                            names[x & 3], (unsigned)x, (unsigned)(x >> 8) % 101);
        sum = mix(sum, crc32_table(line, (size_t)length));
    }
    return sum;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
