/* Ends through the test finisher: passed. */
#include "finisher.h"
#include "text.h"

int main(void)
{
    print("finisher-pass: storing 0x5555\n");
    finisher(0x5555);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
