/* Ends through the test finisher: failed, code 3. */
#include "finisher.h"
#include "text.h"

int main(void)
{
    print("finisher-fail: storing 0x33333\n");
    finisher(3u << 16 | 0x3333);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
