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
 * is at most one instruction more. With -DZONE_OFF nothing is left.
 *
 * Names are string literals without `"`, `\` and `%`. A value is no wider than a register, and read as a signed number.
 * Of a C function that is compiled without optimisation the end of a ZONE costs some instructions more.
 *
 * gcc or clang; GNU as 2.35 or LLVM's. The records of code that the linker drops (--gc-sections) go with it. A copy that
 * the compiler makes of an event (inlined, unrolled, in a template) has a record of its own.
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

/* A record belongs to the section of its nop ("o") and to that section's group, if it has one ("?"). */
#define ZONE_RECORD_(kind, detail, name)                                                                              \
    ".Lzone%=:\n\tnop\n\t"                                                                                            \
    ".pushsection .zones,\"?o\",%%progbits,.Lzone%=\n\t"                                                              \
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

/*
 * The array's length is negative, which is an error, where the value is wider than a register. What has 32 bits is signed
 * on RV64, too: registers have it so, and anything else would be two instructions more.
 */
#define ZONE_SIGNED_(value) (sizeof(value) == sizeof(int) ? (long)(int)(value) : (long)(value))
#define MARK(name, value)                                                                                             \
    do {                                                                                                              \
        (void)sizeof(char[sizeof(value) <= sizeof(long) ? 1 : -1]);                                                   \
        __asm__ volatile(ZONE_RECORD_("M", "%0", name) : : "rn"(ZONE_SIGNED_(value)) : "memory");                     \
    } while (0)

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
