/* Does instrumentation disturb the program? Every kind of argument and result twice: through functions that
   call the runtime, and through the same ones that do not. */
#include <stdarg.h>

#include "board.h"
#include "text.h"
#include "work.h"

struct pair { uint32_t a, b; };
struct big { uint32_t v[6]; };

/* Each function comes as name_counted and name_silent; what it calls is of its own kind. */
#define BOTH(define) define(counted, __attribute__((noipa))) define(silent, __attribute__((noipa, no_instrument_function)))

#define FUNCTIONS(kind, attributes) \
    static attributes uint32_t none_##kind(void) { return 0x1234567; } \
    static attributes uint32_t four_##kind(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return a * 3 + b * 5 + c * 7 + d * 11; } \
    static attributes uint32_t ten_##kind(uint32_t a, uint8_t b, int16_t c, uint32_t d, uint32_t e, uint32_t f, uint32_t g, \
                                          uint32_t h, uint32_t i, uint32_t j) \
    { \
        return mix(mix(mix(a, b), mix((uint32_t)c, d)), mix(mix(e, f), mix(mix(g, h), mix(i, j)))); \
    } \
    static attributes uint64_t wide_##kind(uint32_t a, uint64_t b, uint64_t c) { return (b ^ c) + a; } \
    static attributes float floats_##kind(float a, float b, uint32_t c, float d) { return a * b + (float)c - d; } \
    static attributes double doubles_##kind(double a, uint32_t b, double c, double d, double e, double f, double g, double h, double i, double j) \
    { \
        return a + (double)b * c - d + e * f + g - h + i * j; \
    } \
    static attributes struct pair pair_##kind(uint32_t a) { return (struct pair){ a + 1, a * 2 }; } \
    static attributes struct big big_##kind(uint32_t a, struct big x) { x.v[a % 6] += a; return x; } \
    static attributes uint32_t variadic_##kind(int count, ...) \
    { \
        uint32_t sum = 0; \
        va_list list; \
        va_start(list, count); \
        while (count--) \
            sum = mix(sum, va_arg(list, uint32_t)); \
        va_end(list); \
        return sum; \
    } \
    static attributes uint32_t recursive_##kind(uint32_t n, uint32_t x) { return n ? mix(recursive_##kind(n - 1, x + n), n) : x; } \
    static attributes uint32_t nested_##kind(uint32_t n) \
    { \
        uint32_t total = n; \
        attributes uint32_t inner(uint32_t x) \
        { \
            total += x; \
            return total * 3; \
        } \
        uint32_t first = inner(n + 1); \
        return first ^ inner(first) ^ total; \
    } \
    static attributes uint32_t all_##kind(uint32_t i) \
    { \
        uint32_t (*const volatile pointer)(uint32_t, uint32_t, uint32_t, uint32_t) = four_##kind; \
        struct big big = { { i, i + 1, i + 2, i + 3, i + 4, i + 5 } }; \
        uint32_t sum = none_##kind(); \
        sum = mix(sum, pointer(i, i + 1, i + 2, i + 3)); \
        sum = mix(sum, ten_##kind(i, (uint8_t)i, (int16_t)-i, 4, 5, 6, i, 8, 9, i)); \
        uint64_t wide = wide_##kind(i, (uint64_t)i << 31, 0x123456789abcdefu); \
        sum = mix(mix(sum, (uint32_t)wide), (uint32_t)(wide >> 32)); \
        sum = mix(sum, (uint32_t)floats_##kind((float)i, 1.5f, i, 0.25f)); \
        sum = mix(sum, (uint32_t)doubles_##kind(i, i, 2.5, 1, 2, 3, 4, 5, 6, i)); \
        struct pair pair = pair_##kind(i); \
        sum = mix(mix(sum, pair.a), pair.b); \
        big = big_##kind(i, big); \
        for (int n = 0; n < 6; n++) \
            sum = mix(sum, big.v[n]); \
        sum = mix(sum, variadic_##kind(7, i, 2, 3, 4, i, 6, 7)); \
        sum = mix(sum, recursive_##kind(i % 8, i)); \
        return mix(sum, nested_##kind(i)); \
    }

BOTH(FUNCTIONS)

int main(void)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t counted = all_counted(i), silent = all_silent(i);
        if (counted != silent) {
            print("abi: round %u differs: %08x, %08x\n", (unsigned)i, (unsigned)counted, (unsigned)silent);
            return 1;
        }
        sum = mix(sum, counted);
    }
    print("abi: sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
