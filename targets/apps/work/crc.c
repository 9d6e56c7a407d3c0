/* CRC-32 (IEEE 802.3), bit by bit and by table. */
#include "work.h"

static inline uint32_t shift_bit(uint32_t crc) { return crc >> 1 ^ (0xedb88320u & -(crc & 1)); }

static inline uint32_t shift_byte(uint32_t crc)
{
    for (int bit = 0; bit < 8; bit++)
        crc = shift_bit(crc);
    return crc;
}

uint32_t crc32_bitwise(const void *data, size_t size)
{
    uint32_t crc = ~0u;
    for (const uint8_t *p = data; size--; p++)
        crc = shift_byte(crc ^ *p);
    return ~crc;
}

static uint32_t table[256];

static __attribute__((noinline)) void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++)
        table[i] = shift_byte(i);
}

uint32_t crc32_table(const void *data, size_t size)
{
    uint32_t crc = ~0u;
    if (!table[255]) /* the last entry: a task that preempts the first user fills it again */
        make_table();
    for (const uint8_t *p = data; size--; p++)
        crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];
    return ~crc;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
