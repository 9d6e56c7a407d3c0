// C++ exceptions as newlib and libsupc++ throw them: out of a deep chain of calls, through destructors, caught in a
// recursion, thrown again, nested, thrown from below the library's sort, and where nothing fits but a base class.
#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" {
#include "text.h"
}

#define NOIPA __attribute__((noipa))

namespace {

constexpr uint32_t rounds = 60;
volatile uint32_t sink;
uint32_t destroyed;

uint32_t rotate_left(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }
uint32_t mix(uint32_t sum, uint32_t value) { return rotate_left(sum ^ value, 5) * 0x9e3779b1u; }

NOIPA uint32_t leaf(uint32_t x)
{
    for (int i = 0; i < 8; i++)
        x = rotate_left(x, 3) + 0x9e3779b1u + sink;
    return x;
}

struct Failure {
    virtual ~Failure() = default;
    uint32_t value;
    explicit Failure(uint32_t v) : value(v) {}
};
struct Deep final : Failure { using Failure::Failure; };
struct Early final : Failure { using Failure::Failure; };

/// Works when it goes away, also while the stack is unwound.
struct Guard {
    uint32_t value;
    explicit Guard(uint32_t v) : value(leaf(v)) {}
    NOIPA ~Guard() { destroyed = mix(destroyed, leaf(value)); }
};

NOIPA void fail(uint32_t x)
{
    if (x & 1)
        throw Deep(leaf(x));
    throw Early(leaf(x + 1));
}

/* ---- out of the depth, through frames with and without something to destroy ---- */

NOIPA uint32_t plain(uint32_t depth, uint32_t x);
NOIPA uint32_t guarded(uint32_t depth, uint32_t x)
{
    Guard guard(x);
    return plain(depth, x + guard.value) + 1;
}
NOIPA uint32_t large(uint32_t depth, uint32_t x)
{
    volatile uint8_t local[300];
    local[x % 300] = static_cast<uint8_t>(x);
    return guarded(depth, x) + local[x % 300];
}
NOIPA uint32_t plain(uint32_t depth, uint32_t x)
{
    if (!depth)
        fail(x);
    return (depth % 3 ? guarded(depth - 1, leaf(x)) : large(depth - 1, leaf(x))) + 1;
}
NOIPA uint32_t from_the_depth(uint32_t x)
{
    try {
        return plain(9, x);
    } catch (const Deep &deep) {
        return leaf(deep.value);
    } catch (const Failure &failure) {
        return leaf(failure.value) ^ 1;
    }
}

/* ---- caught in a recursion, and thrown again at some of its levels ---- */

NOIPA uint32_t catches(uint32_t depth, uint32_t x)
{
    Guard guard(depth);
    try {
        if (!depth)
            fail(x);
        return catches(depth - 1, leaf(x)) + 1;
    } catch (Failure &failure) {
        failure.value = leaf(failure.value);
        if (depth & 3)
            throw;
        return failure.value;
    }
}

/* ---- another exception while one is handled, and one caught within a destructor ---- */

struct Careful {
    uint32_t value;
    NOIPA ~Careful()
    {
        try {
            fail(value);
        } catch (const Failure &failure) {
            destroyed = mix(destroyed, failure.value);
        }
    }
};
NOIPA uint32_t nested(uint32_t x)
{
    try {
        try {
            Careful careful{x};
            fail(x);
        } catch (const Failure &failure) {
            Guard guard(failure.value);
            uint32_t inner = from_the_depth(failure.value);
            throw std::runtime_error(std::to_string(inner & 0xffff));
        }
    } catch (const std::exception &exception) {
        return leaf(static_cast<uint32_t>(std::string(exception.what()).size()));
    }
    return 0;
}

/* ---- through the library ---- */

NOIPA uint32_t below_a_sort(uint32_t x)
{
    std::vector<uint32_t> values(40);
    for (auto &value : values)
        value = x = leaf(x);
    uint32_t compared = 0;
    try {
        std::sort(values.begin(), values.end(), [&](uint32_t a, uint32_t b) {
            if (++compared == 70)
                fail(a);
            return leaf(a) < leaf(b);
        });
    } catch (const Failure &failure) {
        return failure.value;
    }
    return values[0];
}
NOIPA uint32_t out_of_range(uint32_t x)
{
    try {
        std::array<uint32_t, 4> values{x, 1, 2, 3};
        return values.at(x % 8);
    } catch (const std::out_of_range &) {
        return leaf(x);
    }
}
NOIPA uint32_t owned(uint32_t depth, uint32_t x)
{
    auto guard = std::make_unique<Guard>(x);
    if (!depth)
        throw leaf(x);
    return owned(depth - 1, guard->value) + 1;
}
NOIPA uint32_t by_value(uint32_t x)
{
    try {
        return owned(5, x);
    } catch (uint32_t value) {
        return value;
    } catch (...) {
        return 0;
    }
}

/* Whoever throws and nobody cleans up below: phase 2 passes frames that have nothing to do. */
NOIPA uint32_t kept(uint32_t x)
{
    std::exception_ptr kept;
    try {
        fail(x);
    } catch (...) {
        kept = std::current_exception();
    }
    try {
        std::rethrow_exception(kept);
    } catch (const Failure &failure) {
        return leaf(failure.value);
    }
}

} // namespace

int main()
{
    uint32_t sum = 1;
    for (uint32_t round = 0; round < rounds; round++) {
        sum = mix(sum, from_the_depth(round));
        sum = mix(sum, catches(10, sum));
        sum = mix(sum, nested(sum));
        sum = mix(sum, below_a_sort(sum));
        sum = mix(sum, out_of_range(sum) + by_value(sum) + kept(sum));
        if (round % 20 == 19)
            print("exceptions: %u rounds %08x %08x\n", (unsigned)round + 1, (unsigned)sum, (unsigned)destroyed);
    }
    return 0;
}
// SPDX-License-Identifier: MIT OR Apache-2.0
