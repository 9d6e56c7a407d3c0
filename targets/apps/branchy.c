/* What benchmarks of whole processors are made of: a linked list searched, turned around and sorted with comparisons
   through a pointer; a small matrix of short numbers; a state machine over text; a checksum bit by bit. Short blocks,
   branches that depend on data, many loads. */
#include "board.h"
#include "text.h"
#include "work.h"

#ifndef REPEAT
#define REPEAT 1
#endif

static uint16_t checksum_byte(uint16_t sum, uint8_t byte)
{
    for (int bit = 0; bit < 8; bit++) {
        int carry = (sum ^ byte) & 1;
        sum >>= 1;
        byte >>= 1;
        if (carry)
            sum ^= 0xa001;
    }
    return sum;
}

static __attribute__((noinline)) uint16_t checksum(uint16_t sum, uint32_t value, int bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        sum = checksum_byte(sum, (uint8_t)value);
    return sum;
}

/* ---- a list ---- */

enum { NODES = 24 };

struct node {
    struct node *next;
    int16_t key, place;
};

/* All data that is written begins a page: QEMU is slow at each store to a page that code was translated from. */
static struct node nodes[NODES] __attribute__((aligned(4096)));

typedef int order(const struct node *, const struct node *);

static int by_key(const struct node *a, const struct node *b) { return a->key - b->key; }
static int by_place(const struct node *a, const struct node *b) { return a->place - b->place; }

static __attribute__((noinline)) struct node *find(struct node *node, int16_t key)
{
    while (node && node->key != key)
        node = node->next;
    return node;
}

static __attribute__((noinline)) struct node *turn(struct node *list)
{
    struct node *turned = 0;
    while (list) {
        struct node *next = list->next;
        list->next = turned;
        turned = list;
        list = next;
    }
    return turned;
}

static __attribute__((noipa)) struct node *merge(struct node *a, struct node *b, order *compare)
{
    struct node *head = 0, **tail = &head;
    while (a && b) {
        struct node **smaller = compare(a, b) <= 0 ? &a : &b;
        *tail = *smaller;
        tail = &(*smaller)->next;
        *smaller = *tail;
    }
    *tail = a ? a : b;
    return head;
}

static __attribute__((noinline)) struct node *sort(struct node *list, order *compare)
{
    if (!list || !list->next)
        return list;
    struct node *middle = list;
    for (struct node *end = list->next; end && (end = end->next); end = end->next)
        middle = middle->next;
    struct node *half = middle->next;
    middle->next = 0;
    return merge(sort(list, compare), sort(half, compare), compare);
}

static uint16_t list_unit(uint32_t seed)
{
    for (int i = 0; i < NODES; i++)
        nodes[i] = (struct node){ i + 1 < NODES ? &nodes[i + 1] : 0, (int16_t)(xorshift(&seed) & 0xff), (int16_t)i };
    struct node *list = nodes;
    uint16_t sum = 0;
    for (int16_t key = 0; key < 36; key++) {
        struct node *found = find(list, (int16_t)(key * 7));
        sum = checksum(sum, found ? (uint32_t)found->place : 0xffff, 2);
        list = turn(list);
    }
    list = sort(list, by_key);
    for (struct node *node = list; node; node = node->next)
        sum = checksum(sum, (uint32_t)node->key, 2);
    list = sort(list, by_place);
    return checksum(sum, (uint32_t)list->key, 2);
}

/* ---- a matrix ---- */

enum { SIZE = 9 };

static int16_t left[SIZE][SIZE], right[SIZE][SIZE];
static int32_t product[SIZE][SIZE];

static __attribute__((noinline)) void add(int16_t value)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            left[i][j] = (int16_t)(left[i][j] + value);
}

static __attribute__((noinline)) void scale(int16_t factor)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++)
            product[i][j] = left[i][j] * factor;
}

static __attribute__((noinline)) void multiply(void)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            product[i][j] = 0;
            for (int k = 0; k < SIZE; k++)
                product[i][j] += left[i][k] * right[k][j];
        }
}

static __attribute__((noinline)) void multiply_bits(void)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            product[i][j] = 0;
            for (int k = 0; k < SIZE; k++) {
                int32_t value = left[i][k] * right[k][j];
                product[i][j] += (value >> 2 & 0xf) * (value >> 5 & 0x7f);
            }
        }
}

static __attribute__((noinline)) int total(int32_t limit)
{
    int32_t sum = 0, before = 0;
    int result = 0;
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            sum += product[i][j];
            if (sum > limit) {
                result += 10;
                sum = 0;
            } else {
                result += product[i][j] > before;
            }
            before = product[i][j];
        }
    return result;
}

static uint16_t matrix_unit16(uint32_t seed)
{
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            left[i][j] = (int16_t)(xorshift(&seed) & 0x3f);
            right[i][j] = (int16_t)(xorshift(&seed) & 0x3f);
        }
    uint16_t sum = 0;
    add(3);
    scale(5);
    sum = checksum(sum, (uint32_t)total(500), 4);
    multiply();
    sum = checksum(sum, (uint32_t)total(40000), 4);
    multiply_bits();
    add(-3);
    return checksum(sum, (uint32_t)total(20000), 4);
}

/* ---- a state machine ---- */

enum state { START, SIGN, WHOLE, POINT, EXPONENT, EXPONENT_SIGN, SCIENTIFIC, INVALID, STATES };

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static __attribute__((noinline)) enum state scan(const char **text, uint16_t *steps)
{
    enum state state = START;
    for (; **text && state != INVALID; ++*text) {
        char c = **text;
        if (c == ',') {
            ++*text;
            break;
        }
        switch (state) {
        case START: state = is_digit(c) ? WHOLE : c == '+' || c == '-' ? SIGN : c == '.' ? POINT : INVALID; break;
        case SIGN: state = is_digit(c) ? WHOLE : c == '.' ? POINT : INVALID; break;
        case WHOLE: state = c == '.' ? POINT : is_digit(c) ? WHOLE : INVALID; break;
        case POINT: state = c == 'E' || c == 'e' ? EXPONENT : is_digit(c) ? POINT : INVALID; break;
        case EXPONENT: state = c == '+' || c == '-' ? EXPONENT_SIGN : INVALID; break;
        case EXPONENT_SIGN: state = is_digit(c) ? SCIENTIFIC : INVALID; break;
        case SCIENTIFIC: state = is_digit(c) ? SCIENTIFIC : INVALID; break;
        default: break;
        }
        steps[state]++;
    }
    return state;
}

static uint16_t text_unit(uint32_t seed)
{
    static const char *const pieces[] = { "5012", "-874", "+122", "35.54400", ".1234500", "-110.700", "+0.64400",
        "5.500e+3", "-.123e-2", "-87e+832", "+0.6e-12", "T0.3e-1F", "-T.T++Tq", "1T3.4e4z", "34.0e-T^" };
    static char text[256];
    unsigned length = 0;
    while (length < sizeof text - 12)
        length += (unsigned)format(text + length, 12, "%s,", pieces[xorshift(&seed) % (sizeof pieces / sizeof *pieces)]);
    uint16_t ends[STATES] = { 0 }, steps[STATES] = { 0 }, sum = 0;
    for (int pass = 0; pass < 4; pass++) {
        for (const char *at = text; *at;)
            ends[scan(&at, steps)]++;
        /* Damaged, another time each. */
        for (unsigned i = (unsigned)pass; i < length; i += 17)
            if (text[i] != ',')
                text[i] ^= 1 << pass;
    }
    for (int state = 0; state < STATES; state++)
        sum = checksum(checksum(sum, ends[state], 2), steps[state], 2);
    return sum;
}

int main(void)
{
    static uint16_t (*const units[])(uint32_t) = { list_unit, matrix_unit16, text_unit };
    uint16_t sums[3] = { 0 };
    for (uint32_t round = 1; round <= 24 * REPEAT; round++)
        for (int unit = 0; unit < 3; unit++)
            sums[unit] = checksum(sums[unit], units[unit](round * 7919), 2);
    print("branchy: list %04x, matrix %04x, text %04x\n", sums[0], sums[1], sums[2]);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
