/* Calls in known numbers, in two phases with other favourites: work1 to work12 from phase1 and phase2, each
   from a place of its own. Under three configurations of the runtime: a table that is too small, one
   that ignores `ignored1` and `ignored2`, and the small mode. */
#include "board.h"
#include "mcount.h"
#include "text.h"
#include "work.h"

#define WORK(n) \
    static __attribute__((noipa)) uint32_t work##n(uint32_t x) { return rotate_left(x, n) + n; }

/* With IGNORED compiled by -fno-toplevel-reorder: functions lie in this order. */
static __attribute__((noipa, no_instrument_function, section(".text.ignored"))) void ignored_start(void) {}
static __attribute__((noipa, section(".text.ignored"))) uint32_t ignored1(uint32_t x) { return x ^ 0x1111; }
static __attribute__((noipa, section(".text.ignored"))) uint32_t ignored2(uint32_t x) { return ignored1(x) * 3; }
static __attribute__((noipa, no_instrument_function, section(".text.ignored"))) void ignored_end(void) {}

WORK(1) WORK(2) WORK(3) WORK(4) WORK(5) WORK(6) WORK(7) WORK(8) WORK(9) WORK(10) WORK(11) WORK(12)

static __attribute__((noipa)) uint32_t phase1(uint32_t x)
{
    for (uint32_t i = 0; i < 10000; i++) {
        x = work1(x);
        x = work2(work2(x));
        if (i % 10 == 0)
            x = work3(work4(work5(x)));
        if (i % 100 == 0)
            x = work6(work7(work8(x)));
        if (i % 1000 == 0)
            x = ignored2(work9(work10(work11(work12(x)))));
    }
    return x;
}

static __attribute__((noipa)) uint32_t phase2(uint32_t x)
{
    for (uint32_t i = 0; i < 10000; i++) {
        x = work11(x);
        x = work12(work12(x));
        if (i % 10 == 0)
            x = work9(work10(x));
        if (i % 1000 == 0)
            x = ignored1(work1(work2(work3(x))));
    }
    return x;
}

int main(void)
{
#ifdef IGNORED
    if (mcount_ignore((const void *)ignored_start, (const void *)ignored_end))
        return 1;
#endif
    ignored_start();
    uint32_t sum = phase2(phase1(1));
    ignored_end();
    print("calls: sum %08x\n", (unsigned)sum);
#ifdef MCOUNT
    mcount_print(console_putc);
#endif
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
