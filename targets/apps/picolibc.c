/* A C library that others built, start-up code and all (Debian's picolibc): formatted output and input with numbers of
   all kinds, sorting and searching with callbacks, memory, and jumps out of callbacks. */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOIPA __attribute__((noipa))
enum { ROUNDS = 40, WORDS = 48 };

static uint32_t rotate_left(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }
static uint32_t mix(uint32_t sum, uint32_t value) { return rotate_left(sum ^ value, 5) * 0x9e3779b1u; }
static uint32_t xorshift(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}
static NOIPA uint32_t text_sum(const char *text)
{
    uint32_t sum = 0;
    while (*text)
        sum = mix(sum, (uint8_t)*text++);
    return sum;
}

static NOIPA uint32_t formats(uint32_t x)
{
    char text[160];
    int size = snprintf(text, sizeof text, "%d %08x %-7u|%+.3f %e %g %s %c %#o %5.1f %llu %p", (int)x, (unsigned)x,
                        (unsigned)(x % 1000), (double)(int)x / 7, (double)x * 3.25, (double)(x & 0xff) / 16, "text",
                        (char)('a' + x % 26), (unsigned)(x & 0777), (double)(x % 97), (unsigned long long)x * x,
                        (void *)(uintptr_t)(x & 0xffff));
    return mix(text_sum(text), (uint32_t)size);
}

static NOIPA uint32_t reads(uint32_t x)
{
    char text[64], word[16];
    int number;
    unsigned hex;
    float real;
    snprintf(text, sizeof text, "%d word%u %x %.2f", (int)x, (unsigned)(x % 77), (unsigned)x, (double)(x % 1000) / 8);
    int found = sscanf(text, "%d %15s %x %f", &number, word, &hex, &real);
    double value = strtod(strrchr(text, ' '), NULL);
    return mix(text_sum(word), (uint32_t)found + (uint32_t)number + hex + (uint32_t)(real * 4) + (uint32_t)value) +
           (uint32_t)strtoul(text, NULL, 10);
}

struct word { uint32_t key; char *text; };
static jmp_buf out;
static int compared, give_up_at;

static NOIPA int by_key(const void *a, const void *b)
{
    const struct word *left = a, *right = b;
    if (++compared == give_up_at)
        longjmp(out, compared);
    return left->key < right->key ? -1 : left->key > right->key;
}
static NOIPA int by_text(const void *a, const void *b)
{
    const struct word *left = a, *right = b;
    return strcmp(left->text, right->text);
}

static NOIPA uint32_t sorts(uint32_t x)
{
    struct word *words = calloc(WORDS, sizeof *words);
    for (int i = 0; i < WORDS; i++) {
        words[i].key = xorshift(&x);
        words[i].text = malloc(8 + i % 9);
        snprintf(words[i].text, 8 + i % 9, "%05u", (unsigned)(words[i].key % 100000));
    }
    volatile uint32_t sum = 0, at = x % WORDS;
    compared = 0;
    give_up_at = x & 1 ? 100 : -1;
    int gave_up = setjmp(out);
    if (!gave_up)
        qsort(words, WORDS, sizeof *words, by_key);
    sum = mix(sum, words[at].key + (uint32_t)gave_up);
    qsort(words, WORDS, sizeof *words, by_text);
    struct word *found = bsearch(&words[at], words, WORDS, sizeof *words, by_text);
    sum = mix(sum, found ? text_sum(found->text) : 1);
    for (int i = 0; i < WORDS; i++) {
        if (i % 3 == 0)
            words[i].text = realloc(words[i].text, 40);
        free(words[i].text);
    }
    free(words);
    return sum;
}

#pragma GCC diagnostic ignored "-Winfinite-recursion" /* it ends in the jump */
static NOIPA uint32_t dives(jmp_buf to, uint32_t depth, uint32_t x)
{
    char text[24];
    snprintf(text, sizeof text, "%u/%u", (unsigned)depth, (unsigned)x);
    if (!depth)
        longjmp(to, (int)(text_sum(text) & 0xffff) | 1);
    return dives(to, depth - 1, text_sum(text)) + 1;
}
static NOIPA uint32_t jumps(uint32_t x)
{
    jmp_buf here;
    int thrown = setjmp(here);
    return thrown ? (uint32_t)thrown : dives(here, 6, x);
}

int main(void)
{
    uint32_t sum = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        sum = mix(sum, formats(sum));
        sum = mix(sum, reads(sum));
        sum = mix(sum, sorts(sum | 1));
        sum = mix(sum, jumps(sum));
        if (round % 10 == 9)
            printf("picolibc: %2u rounds %08x %6.2f\n", (unsigned)round + 1, (unsigned)sum, (double)(sum >> 20) / 4);
    }
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
