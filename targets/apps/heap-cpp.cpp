// C++'s operators on newlib's malloc: new and delete of one and of many, with and without a size and an alignment,
// containers, strings; new that throws since there is no memory, within which the exception is allocated.
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "heap-truth.h"
#include "text.h"

extern "C" void heap_line(const char *name, unsigned value) { print("%s: %u\n", name, value); }

#define NOIPA __attribute__((noipa))

namespace {

struct Small {
    uint32_t values[5];
    virtual ~Small() = default;
};
struct Large : Small {
    uint32_t more[40];
};

NOIPA void single(uint32_t x)
{
    Small *small = x & 1 ? new Small : new Large;
    small->values[0] = x;
    delete small;
}
NOIPA void many(uint32_t x)
{
    uint32_t *values = new uint32_t[x % 50 + 1];
    values[0] = x;
    delete[] values;
}
NOIPA uint32_t containers(uint32_t x)
{
    std::vector<std::string> words;
    for (uint32_t i = 0; i < x % 12 + 2; i++)
        words.push_back(std::string(i * 3 + 1, 'a' + i % 26));
    return words.back().size();
}
NOIPA uint32_t throws(uint32_t x)
{
    try {
        char *volatile all = new char[(x % 4 + 1) << 27];
        delete[] all;
        return 1;
    } catch (const std::bad_alloc &) {
        return 0;
    }
}
NOIPA uint32_t tries(uint32_t x)
{
    char *volatile all = new (std::nothrow) char[x % 90 + 1];
    delete[] all;
    return all != nullptr;
}
NOIPA void *elsewhere(void *place)
{
    return new (place) Small;
}
NOIPA void leaks(uint32_t x)
{
    static Small *volatile lost;
    lost = new Small;
    lost->values[0] = x;
}

} // namespace

int main()
{
    uint32_t sum = 0;
    for (uint32_t round = 0; round < 40; round++) {
        single(round);
        many(round * 7);
        sum += containers(round);
        if (round % 8 == 3) {
            sum += throws(round) + tries(round);
            leaks(round);
            alignas(Small) char place[sizeof(Small)];
            sum += elsewhere(place) == place;
        }
    }
    print("sum: %u\n", (unsigned)sum);
    truth_print();
    return 0;
}
// SPDX-License-Identifier: MIT OR Apache-2.0
