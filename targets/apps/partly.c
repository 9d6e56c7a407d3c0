/* Some functions are instrumented and some are not, as in firmware with libraries that came compiled. */
#include "board.h"
#include "text.h"
#include "work.h"

#define SILENT __attribute__((noipa, no_instrument_function))

static __attribute__((noipa)) uint32_t counted(uint32_t x) { return rotate_left(x, 3) + 1; }
static SILENT uint32_t silent_leaf(uint32_t x) { return x * 5; }
static SILENT uint32_t silent(uint32_t x) { return counted(silent_leaf(x)) ^ 7; }

int main(void)
{
    uint32_t sum = 1;
    for (int i = 0; i < 5000; i++)
        sum = silent(counted(sum));
    print("partly: sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
