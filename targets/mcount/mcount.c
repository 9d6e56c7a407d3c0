/* Counts the calls of functions that were compiled with `gcc -pg`: `_mcount` for RISC-V, `__gnu_mcount_nc`
   for Cortex-M. One file, no library, no start-up code; README.md says how to use it.

   Interrupts and preempting tasks may come anywhere and may call instrumented functions: an entry of the
   table is claimed by one atomic operation and counted up by another, and nothing waits for anybody. */
#include "mcount.h"

#include <stddef.h>
#include <stdint.h>

#ifndef MCOUNT_ARCS
#define MCOUNT_ARCS 512 /* entries: pairs of caller and callee; a power of two */
#endif
#ifndef MCOUNT_IGNORE
#define MCOUNT_IGNORE 4 /* ranges of addresses for mcount_ignore() */
#endif

#define VERSION 1
#define MODE_ARCS 1
#define MODE_HOTTEST 2

#ifdef MCOUNT_HOTTEST /* the small mode: so many callees and no callers */
#define MODE MODE_HOTTEST
#define ENTRIES MCOUNT_HOTTEST
#else
#define MODE MODE_ARCS
#define ENTRIES MCOUNT_ARCS
_Static_assert((MCOUNT_ARCS & (MCOUNT_ARCS - 1)) == 0 && MCOUNT_ARCS > 0, "MCOUNT_ARCS must be a power of two");
#endif

/* How an update is protected from interrupts, as the table's header says it. */
#define UNPROTECTED 0
#define MASKED 1
#define EXCLUSIVE 2
#define AMO 3
#if defined(MCOUNT_ATOMIC) && !MCOUNT_ATOMIC
#define PROTECTION UNPROTECTED
#elif defined(MCOUNT_HOTTEST)
#define PROTECTION MASKED /* several words change at once */
#elif defined(__riscv_atomic)
#define PROTECTION AMO
#elif defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_4)
#define PROTECTION EXCLUSIVE
#else
#define PROTECTION MASKED
#endif

/* So that the file may be compiled with -pg like all others. */
#define UNCOUNTED __attribute__((no_instrument_function))

struct arc {
    uint32_t count;   /* first, since atomic instructions take no offset */
    uintptr_t caller; /* the callee's return address, bit 0 set; 0 while the entry is being made */
    uintptr_t callee; /* the address after its call of the runtime; 0: the entry is free */
};

struct hot {
    uintptr_t callee;
    uint32_t hits;   /* since it has this entry */
    uint16_t ratio;  /* its share of the calls in 1/1024, older ones weigh less */
    uint16_t recent; /* its calls among the last ones */
};

#ifdef MCOUNT_HOTTEST
typedef struct hot entry;
#else
typedef struct arc entry;
#endif

struct state {
    uint32_t dropped; /* calls without an entry */
    uint32_t ignored;
    uint32_t resets;
    uint32_t calls; /* small mode only: all but ignored ones */
    struct { uintptr_t start, end; } ignore[MCOUNT_IGNORE];
    entry entries[ENTRIES];
};

/* Named by the header, which is assembly. */
__attribute__((used)) struct state mcount_state;
#define table ((volatile struct state *)&mcount_state)

/* Spelled out for the assembler, which does not know sizeof. */
#ifdef MCOUNT_HOTTEST
#define ENTRY_BYTES __SIZEOF_POINTER__ + 8
#else
#define ENTRY_BYTES 3 * __SIZEOF_POINTER__
#endif
#define STATE_BYTES 16 + 2 * MCOUNT_IGNORE * __SIZEOF_POINTER__ + (ENTRIES) * (ENTRY_BYTES)
_Static_assert(sizeof(entry) == ENTRY_BYTES && sizeof(struct state) == STATE_BYTES, "padding where none was expected");

#ifdef __riscv
#define ENTRY_POINT "_mcount"
#define NO_RELOCATION "R_RISCV_NONE"
#else
#define ENTRY_POINT "__gnu_mcount_nc"
#define NO_RELOCATION "R_ARM_NONE"
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Tells the harness where and what the table is. Distances instead of addresses, for code that is moved;
   assembly, since C cannot subtract the addresses of two objects at compile time. */
__asm__(".pushsection .rodata.mcount_header,\"a\",%progbits\n"
        ".balign 4\n"
        ".globl mcount_header\n"
        ".type mcount_header,%object\n"
        "mcount_header:\n"
        ".byte 0x7f\n"
        ".ascii \"mcount\\n\"\n"
        ".byte " TEXT(VERSION) ", " TEXT(__SIZEOF_POINTER__) ", " TEXT(MODE) ", " TEXT(PROTECTION) "\n"
        ".2byte " TEXT(ENTRY_BYTES) "\n"
        ".2byte " TEXT(MCOUNT_IGNORE) "\n"
        ".4byte " TEXT(ENTRIES) "\n"
        ".4byte mcount_state - .\n"
        ".4byte " ENTRY_POINT " - .\n"
        ".4byte " TEXT(STATE_BYTES) "\n"
        ".size mcount_header, . - mcount_header\n"
        ".popsection");

/* Has the linker keep the header for whoever keeps the runtime; no instruction. */
#define KEEP_HEADER __asm__ volatile(".reloc ., " NO_RELOCATION ", mcount_header")

#if PROTECTION == MASKED && defined(__riscv)
static inline UNCOUNTED uintptr_t mask(void)
{
    uintptr_t before;
    __asm__ volatile("csrrci %0, mstatus, 8" : "=r"(before)::"memory"); /* MIE */
    return before;
}
static inline UNCOUNTED void unmask(uintptr_t before)
{
    __asm__ volatile("csrs mstatus, %0" ::"r"(before & 8) : "memory");
}
#elif PROTECTION == MASKED
static inline UNCOUNTED uintptr_t mask(void)
{
    uintptr_t before;
    __asm__ volatile("mrs %0, primask\n\tcpsid i" : "=r"(before)::"memory");
    return before;
}
static inline UNCOUNTED void unmask(uintptr_t before)
{
    __asm__ volatile("msr primask, %0" ::"r"(before) : "memory");
}
#else
static inline UNCOUNTED uintptr_t mask(void) { return 0; }
static inline UNCOUNTED void unmask(uintptr_t before) { (void)before; }
#endif

static inline UNCOUNTED void increment(volatile uint32_t *count)
{
#if PROTECTION == AMO || PROTECTION == EXCLUSIVE
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
#else
    uintptr_t before = mask();
    *count = *count + 1;
    unmask(before);
#endif
}

static inline UNCOUNTED int is_ignored(uintptr_t callee)
{
    for (unsigned i = 0; i < MCOUNT_IGNORE; i++)
        if (table->ignore[i].end && callee - table->ignore[i].start < table->ignore[i].end - table->ignore[i].start)
            return 1;
    return 0;
}

#ifdef MCOUNT_HOTTEST

enum { WINDOW = 1024 };

/* After each window: every share moves halfway to what the window had. The coldest entry is given up
   where others found no room, so that what has become hot gets in. */
static inline UNCOUNTED void decay(int wanted)
{
    unsigned coldest = 0;
    for (unsigned i = 0; i < ENTRIES; i++) {
        volatile struct hot *hot = &table->entries[i];
        unsigned ratio = (hot->ratio + hot->recent) / 2u;
        hot->ratio = (uint16_t)(ratio < WINDOW ? ratio : WINDOW - 1);
        hot->recent = 0;
        if (hot->ratio < table->entries[coldest].ratio)
            coldest = i;
    }
    if (wanted && table->entries[coldest].callee) {
        table->dropped += table->entries[coldest].hits;
        table->entries[coldest].callee = 0;
    }
}

static inline UNCOUNTED void hit(uintptr_t callee)
{
    static uint8_t wanted; /* somebody found no room in this window */
    table->calls++;
    volatile struct hot *free = 0, *hot = table->entries;
    for (; hot != table->entries + ENTRIES && hot->callee != callee; hot++)
        if (!hot->callee)
            free = hot;
    if (hot == table->entries + ENTRIES && free) {
        hot = free;
        hot->callee = callee;
        hot->hits = 0;
        hot->ratio = hot->recent = 0;
    }
    if (hot == table->entries + ENTRIES) {
        table->dropped++;
        wanted = 1;
    } else {
        hot->hits++;
        hot->recent++;
    }
    if (table->calls % WINDOW == 0) {
        decay(wanted);
        wanted = 0;
    }
}

static inline UNCOUNTED void count(uintptr_t caller, uintptr_t callee)
{
    (void)caller;
    uintptr_t before = mask();
    if (is_ignored(callee))
        table->ignored++;
    else
        hit(callee);
    unmask(before);
}

#else

enum { PROBES = ENTRIES < 16 ? ENTRIES : 16 };

static inline UNCOUNTED int claim(volatile uintptr_t *free, uintptr_t callee)
{
#if PROTECTION == AMO || PROTECTION == EXCLUSIVE
    uintptr_t expected = 0;
    return __atomic_compare_exchange_n(free, &expected, callee, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#else
    uintptr_t before = mask();
    int claimed = *free == 0;
    if (claimed)
        *free = callee;
    unmask(before);
    return claimed;
#endif
}

static inline UNCOUNTED uintptr_t first_slot(uintptr_t caller, uintptr_t callee) { return (caller >> 2) ^ callee; }

/* Apart from count(), which every call goes through, so that that one gets by without saving registers. */
static __attribute__((noinline)) UNCOUNTED void count_elsewhere(uintptr_t caller, uintptr_t callee)
{
    uintptr_t slot = first_slot(caller, callee);
    for (unsigned probe = 0; probe < PROBES; probe++, slot++) {
        volatile struct arc *arc = &table->entries[slot % ENTRIES];
        uintptr_t found = arc->callee;
        if (found == callee && arc->caller == caller) {
            increment(&arc->count);
            return;
        }
        if (found)
            continue;
        if (is_ignored(callee)) {
            increment(&table->ignored);
            return;
        }
        /* Whoever interrupts between these two sees an entry that is nobody's yet, and makes one more. */
        if (claim(&arc->callee, callee)) {
            arc->caller = caller;
            increment(&arc->count);
            return;
        }
    }
    increment(is_ignored(callee) ? &table->ignored : &table->dropped);
}

static inline UNCOUNTED void count(uintptr_t caller, uintptr_t callee)
{
    volatile struct arc *arc = &table->entries[first_slot(caller, callee) % ENTRIES];
    caller |= 1; /* so that no published one is 0 */
    __asm__("" : "+r"(arc)); /* its address once, not the parts of it for every field */
    if (__builtin_expect(arc->callee == callee && arc->caller == caller, 1))
        increment(&arc->count);
    else
        count_elsewhere(caller, callee);
}

#endif

#ifdef __riscv

/* The compiler passes its function's return address, and saves what a call may overwrite. */
UNCOUNTED void _mcount(uintptr_t caller);
void _mcount(uintptr_t caller)
{
    uintptr_t callee;
    KEEP_HEADER;
    __asm__ volatile("mv %0, ra" : "=r"(callee)); /* __builtin_return_address() would make a stack frame */
    count(caller, callee);
}

#else

/* General registers only: the others hold arguments, which the compiler does not save. */
__attribute__((used, noinline, target("general-regs-only"))) UNCOUNTED void mcount_count(uintptr_t caller,
                                                                                         uintptr_t callee);
void mcount_count(uintptr_t caller, uintptr_t callee)
{
    KEEP_HEADER;
    count(caller, callee);
}

/* The compiler pushes its function's lr before the call and wants r0 to r3 and that lr back, and the word off
   the stack. */
__asm__(".pushsection .text.__gnu_mcount_nc,\"ax\",%progbits\n"
        ".syntax unified\n"
        ".thumb\n"
        ".balign 4\n"
        ".globl __gnu_mcount_nc\n"
        ".type __gnu_mcount_nc,%function\n"
        "__gnu_mcount_nc:\n"
        "push {r0-r3, lr}\n"
        "ldr r0, [sp, #20]\n"
        "mov r1, lr\n"
#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
        "bl mcount_count\n" /* until here the stack is as an unwinder expects it */
        "pop {r0-r3}\n"
        "ldr lr, [sp, #4]\n"
        "ldr pc, [sp], #8\n"
#else
        "bl mcount_count\n"
        "ldr r0, [sp, #20]\n"
        "mov lr, r0\n"
        "ldr r0, [sp, #16]\n"
        "str r0, [sp, #20]\n"
        "pop {r0-r3}\n"
        "add sp, #4\n"
        "pop {pc}\n"
#endif
        ".size __gnu_mcount_nc, . - __gnu_mcount_nc\n"
        ".popsection");

#endif

UNCOUNTED void mcount_reset(void)
{
    uintptr_t before = mask();
    for (unsigned i = 0; i < ENTRIES; i++) {
#ifdef MCOUNT_HOTTEST
        table->entries[i].callee = 0;
#else
        table->entries[i].count = 0;
#endif
    }
    table->calls = table->dropped = table->ignored = 0;
    table->resets++;
    unmask(before);
}

UNCOUNTED int mcount_ignore(const void *start, const void *end)
{
    for (unsigned i = 0; i < MCOUNT_IGNORE; i++) {
        if (table->ignore[i].end)
            continue;
        table->ignore[i].start = (uintptr_t)start;
        table->ignore[i].end = (uintptr_t)end; /* last: the range counts from here on */
        return 0;
    }
    return -1;
}

static UNCOUNTED void print_text(void (*put)(char), const char *text)
{
    while (*text)
        put(*text++);
}

static UNCOUNTED void print_number(void (*put)(char), const char *before, uintptr_t number, unsigned base)
{
    char digits[3 * sizeof number];
    unsigned n = 0;
    print_text(put, before);
    do
        digits[n++] = "0123456789abcdef"[number % base];
    while (number /= base);
    while (n)
        put(digits[--n]);
}

UNCOUNTED void mcount_print(void (*put)(char))
{
    print_number(put, MODE == MODE_HOTTEST ? "mcount hottest " : "mcount arcs ", ENTRIES, 10);
    print_number(put, " dropped ", table->dropped, 10);
    print_number(put, " ignored ", table->ignored, 10);
    print_number(put, " resets ", table->resets, 10);
#ifdef MCOUNT_HOTTEST
    print_number(put, " calls ", table->calls, 10);
#endif
    put('\n');
    for (unsigned i = 0; i < ENTRIES; i++) {
        volatile entry *e = &table->entries[i];
#ifdef MCOUNT_HOTTEST
        if (!e->callee)
            continue;
        print_number(put, "mcount 0x", e->callee, 16);
        print_number(put, " ", e->hits, 10);
        print_number(put, " ", e->ratio, 10);
        print_text(put, "/1024\n");
#else
        if (!e->count)
            continue;
        print_number(put, "mcount 0x", e->caller, 16);
        print_number(put, " 0x", e->callee, 16);
        print_number(put, " ", e->count, 10);
        put('\n');
#endif
    }
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
