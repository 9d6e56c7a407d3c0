/* Exact call counts of firmware that was compiled with `gcc -pg`. README.md says how to use it, and
   describes the table that the harness reads. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the table as text through `put`, in lines that start with "mcount ". */
void mcount_print(void (*put)(char));

/* Sets all counts to zero. Calls that are being counted meanwhile are counted afterwards. */
void mcount_reset(void);

/* Stops counting the functions that lie from `start` up to `end`, which is not included: their own calls
   are no longer counted, what they call is. Counts made before stay. Returns 0, or -1 when there is no
   room for another range (MCOUNT_IGNORE). */
int mcount_ignore(const void *start, const void *end);

#ifdef __cplusplus
}
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
