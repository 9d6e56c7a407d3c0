/*
 * zone.h names what firmware does, for harness to count: zones, phases and marks, for C and C++. Copy this one file.
 *
 *     ZONE("decode");                      from here to the end of the scope
 *     ZONE_BEGIN("wait"); ZONE_END("wait"); from one to the other, in whatever functions
 *     PHASE("boot");                       from here to the next PHASE
 *     MARK("frame", number);               a value, once
 *
 * Each of them is one `nop`. What it stands for is said in a section that is not loaded (`.zones`): where the nop is,
 * which name, in which register the value. So it takes no RAM, harms no register, and does nothing on a chip; a value
 * is at most one instruction more (on AVR, one for each of its bytes). With -DZONE_OFF nothing is left.
 *
 * Names are string literals without `"`, `\` and `%`. A value is no wider than a register, and read as a signed number;
 * on AVR it is an integer of at most four bytes, and read with its sign or without, as its type is.
 * Of a C function that is compiled without optimisation the end of a ZONE costs some instructions more.
 *
 * gcc or clang; GNU as 2.35 or LLVM's, and on AVR any. The records of code that the linker drops (--gc-sections) go with
 * it. A copy that the compiler makes of an event (inlined, unrolled, in a template) has a record of its own.
 */
#ifndef ZONE_H
#define ZONE_H

#ifdef ZONE_OFF

#define ZONE(name) ((void)0)
#define ZONE_BEGIN(name) ((void)0)
#define ZONE_END(name) ((void)0)
#define PHASE(name) ((void)0)
#define MARK(name, value) ((void)sizeof(value))

#else

#if defined(__LP64__)
#define ZONE_ADDRESS_ ".8byte"
#else
#define ZONE_ADDRESS_ ".4byte"
#endif

#ifdef __AVR__
/*
 * As 2.26, which Arduino's IDE has, cannot tie a record to the section of its nop. The linker keeps sections of this name,
 * and the address of code that it drops is 0 there.
 */
#define ZONE_SECTION_ ".debug_zones,\"\",%%progbits"
#else
/* A record belongs to the section of its nop ("o") and to that section's group, if it has one ("?"). */
#define ZONE_SECTION_ ".zones,\"?o\",%%progbits,.Lzone%="
#endif
#define ZONE_RECORD_(kind, detail, name)                                                                              \
    ".Lzone%=:\n\tnop\n\t"                                                                                            \
    ".pushsection " ZONE_SECTION_ "\n\t"                                                                              \
    ".ascii \"Z" kind "\"\n\t" ZONE_ADDRESS_ " .Lzone%=\n\t"                                                          \
    ".asciz \"" detail "\"\n\t"                                                                                       \
    ".asciz \"" name "\"\n\t"                                                                                         \
    ".popsection"

#define ZONE_EVENT_(kind, detail, name) __asm__ volatile(ZONE_RECORD_(kind, detail, name) : : : "memory")

#define ZONE_TEXT2_(text) #text
#define ZONE_TEXT_(text) ZONE_TEXT2_(text)
#define ZONE_JOIN2_(one, other) one##other
#define ZONE_JOIN_(one, other) ZONE_JOIN2_(one, other)

#define ZONE_BEGIN(name) ZONE_EVENT_("B", "", name)
#define ZONE_END(name) ZONE_EVENT_("F", "", name)
#define PHASE(name) ZONE_EVENT_("P", "", name)

/* The array's length is negative, which is an error, where the value is wider than a register (on AVR: than four bytes). */
#define ZONE_FITS_(value) (void)sizeof(char[sizeof(value) <= sizeof(long) ? 1 : -1])
#ifdef __AVR__
/* A value stays as wide as it is: the detail says its bytes, negative where its type is signed. Cast a pointer to unsigned. */
#define ZONE_BYTES_(value)                                                                                            \
    ((long long)((__typeof__(value))-1) > 0 ? (int)sizeof(value) : -(int)sizeof(value))
#define MARK(name, value)                                                                                             \
    do {                                                                                                              \
        ZONE_FITS_(value);                                                                                            \
        __asm__ volatile(ZONE_RECORD_("M", "%0/%1", name) : : "rn"(value), "n"(ZONE_BYTES_(value)) : "memory");       \
    } while (0)
#else
/* What has 32 bits is signed on RV64, too: registers have it so, and anything else would be two instructions more. */
#define ZONE_SIGNED_(value) (sizeof(value) == sizeof(int) ? (long)(int)(value) : (long)(value))
#define MARK(name, value)                                                                                             \
    do {                                                                                                              \
        ZONE_FITS_(value);                                                                                            \
        __asm__ volatile(ZONE_RECORD_("M", "%0", name) : : "rn"(ZONE_SIGNED_(value)) : "memory");                     \
    } while (0)
#endif

#ifdef __cplusplus

/* The destructor is what an exception leaves the scope by, too. */
#define ZONE(name)                                                                                                    \
    ZONE_EVENT_("E", "", name);                                                                                       \
    struct ZONE_JOIN_(ZoneScope, __LINE__) {                                                                          \
        __attribute__((always_inline)) ~ZONE_JOIN_(ZoneScope, __LINE__)() { ZONE_EVENT_("L", "", name); }             \
    } ZONE_JOIN_(zone_scope_, __LINE__) __attribute__((unused))

#else

/* The end of a scope is one function for all of them, and tells which by the line. */
static inline __attribute__((always_inline)) void zone_leave_(const unsigned *line)
{
    __asm__ volatile(ZONE_RECORD_("L", "%0", "") : : "nr"(*line) : "memory");
}

#define ZONE(name)                                                                                                    \
    ZONE_EVENT_("E", ZONE_TEXT_(__LINE__), name);                                                                     \
    const unsigned ZONE_JOIN_(zone_scope_, __LINE__) __attribute__((cleanup(zone_leave_), unused)) = __LINE__

#endif
#endif
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
