// Zones that C++ exceptions leave: through destructors and out of the depth; in templates, whose copies the linker joins.
#include <cstdint>

extern "C" {
#include "text.h"
}
#include "zone.h"

#define NOIPA __attribute__((noipa))

namespace {

constexpr uint32_t rounds = 40;
volatile uint32_t sink;

NOIPA uint32_t leaf(uint32_t x)
{
    for (int i = 0; i < 8; i++)
        x = (x << 3 | x >> 29) + 0x9e3779b1u + sink;
    return x;
}

struct Failure { uint32_t value; };

NOIPA uint32_t deep(uint32_t depth, uint32_t x)
{
    ZONE("deep");
    x = leaf(x);
    if (depth == 0 && x & 1)
        throw Failure{x};
    return depth ? deep(depth - 1, x) + 1 : x;
}

template <typename T> NOIPA T scaled(T x)
{
    ZONE("scaled");
    T sum = 0;
    for (T i = 0; i < 6; i++)
        sum = static_cast<T>(sum + x * i + sink);
    return sum;
}

// Begun by hand, and so not ended by what is thrown.
NOIPA uint32_t by_hand(uint32_t x)
{
    ZONE_BEGIN("by hand");
    x = deep(2, x);
    ZONE_END("by hand");
    return x;
}

} // namespace

int main()
{
    uint32_t caught = 0, returned = 0;
    for (uint32_t i = 0; i < rounds; i++) {
        ZONE("round");
        try {
            sink = by_hand(i);
            returned++;
        } catch (const Failure &failure) {
            ZONE("caught");
            sink = leaf(failure.value);
            caught++;
        }
        sink = sink + scaled<uint32_t>(i) + scaled<uint16_t>(static_cast<uint16_t>(i));
    }
    print("zones-throw: %u caught, %u returned\n", static_cast<unsigned>(caught), static_cast<unsigned>(returned));
    return 0;
}
// SPDX-License-Identifier: MIT OR Apache-2.0
