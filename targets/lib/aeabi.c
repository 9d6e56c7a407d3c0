/* The names by which LLVM calls memory functions on Arm. */
#include <string.h>

#define SAME(declaration, call)                                                                                   \
    void declaration;                                                                                             \
    void declaration { call; }
#define ALIGNMENTS(name, arguments, call) SAME(name arguments, call) SAME(name##4 arguments, call) SAME(name##8 arguments, call)

ALIGNMENTS(__aeabi_memcpy, (void *to, const void *from, size_t size), memcpy(to, from, size))
ALIGNMENTS(__aeabi_memmove, (void *to, const void *from, size_t size), memmove(to, from, size))
ALIGNMENTS(__aeabi_memset, (void *to, size_t size, int byte), memset(to, byte, size))
ALIGNMENTS(__aeabi_memclr, (void *to, size_t size), memset(to, 0, size))
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
