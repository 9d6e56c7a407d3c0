// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: nested allocations belong to the outer call, and independent ones are counted. This covers blocks of
//! others that are freed within a call, recursive functions, and overlapping calls of threads.

use harness::analysis::heap::{self, HeapUse};

use crate::common::built::{cortex_m, riscv, scratch};
use crate::common::run_file;

/// Pool on top of another allocator, whose blocks begin 8 bytes before its own; both are followed.
const POOL: &str = r#"
#define NOIPA __attribute__((noipa))
typedef unsigned long word;
enum { SLOTS = 16 };
static struct { word used; char bytes[56]; } arena[SLOTS];
static void yield(void);
static void evict(void);
NOIPA void *sys_get(word size) {
    for (int i = 0; i < SLOTS; i++)
        if (!arena[i].used) { arena[i].used = size; return arena[i].bytes; }
    return 0;
}
NOIPA void sys_put(void *raw) { ((word *)raw)[-1] = 0; }
NOIPA void *pool_get(word size) {
    yield();
    char *raw = sys_get(size + 8);
    if (!raw) { evict(); raw = sys_get(size + 8); }
    yield();
    return raw + 8;
}
/* In place, or elsewhere. */
NOIPA void *sys_move(void *raw, word size) {
    if (size & 1)
        return raw;
    void *other = sys_get(size);
    sys_put(raw);
    return other;
}
NOIPA void *pool_move(void *block, word size) { yield(); char *raw = sys_move((char *)block - 8, size + 8); yield(); return raw + 8; }
NOIPA void pool_put(void *block) { yield(); sys_put((char *)block - 8); yield(); }
"#;

/// Two threads that yield to each other within all calls of the pool.
const THREADS: &str = r#"
static word stacks[2][256];
static word *saved[3];
static int now = 2, alive[2] = {1, 1};
void swap(word **from, word *to);
void first(void);
#ifdef __riscv
enum { SAVED = 14, TO = 0 };
__asm__("swap: addi sp,sp,-112\n sd ra,0(sp)\n sd s0,8(sp)\n sd s1,16(sp)\n sd s2,24(sp)\n sd s3,32(sp)\n sd s4,40(sp)\n"
        "sd s5,48(sp)\n sd s6,56(sp)\n sd s7,64(sp)\n sd s8,72(sp)\n sd s9,80(sp)\n sd s10,88(sp)\n sd s11,96(sp)\n"
        "sd sp,0(a0)\n mv sp,a1\n ld ra,0(sp)\n ld s0,8(sp)\n ld s1,16(sp)\n ld s2,24(sp)\n ld s3,32(sp)\n ld s4,40(sp)\n"
        "ld s5,48(sp)\n ld s6,56(sp)\n ld s7,64(sp)\n ld s8,72(sp)\n ld s9,80(sp)\n ld s10,88(sp)\n ld s11,96(sp)\n"
        "addi sp,sp,112\n ret\n first: li ra,0\n j begin\n");
#else
enum { SAVED = 9, TO = 8 };
__asm__(".syntax unified\n.thumb_func\n swap: push {r4-r11,lr}\n str sp,[r0]\n mov sp,r1\n pop {r4-r11,pc}\n"
        ".thumb_func\n first: movs r0,#0\n mov lr,r0\n b begin\n");
#endif
static void yield(void) {
    int from = now;
    if (from == 2)
        return;
    if (alive[1 - from]) now = 1 - from;
    else if (!alive[from]) now = 2;
    else return;
    swap(&saved[from], saved[now]);
}
NOIPA void work(word id) {
    for (word round = 0; round < 10; round++) {
        void *block = pool_get(1 + round + 10 * id);
        yield();
        block = pool_move(block, 2 + round + 10 * id);
        pool_put(block);
    }
}
__attribute__((used)) NOIPA void begin(void) { work(now); alive[now] = 0; yield(); for (;;) {} }
static void threads(void) {
    for (int id = 0; id < 2; id++) {
        saved[id] = stacks[id] + 256 - SAVED;
        saved[id][TO] = (word)first;
    }
    now = 0;
    swap(&saved[2], saved[0]);
}
"#;

/// Pool that frees a cache when it is empty, and a tree whose nodes delete their children.
const NESTED: &str = r#"
static void *cache[4], *held[13];
NOIPA static void evict(void) { for (int i = 0; i < 4; i++) pool_put(cache[i]); }
struct node { struct node *left, *right; } nodes[7];
static int node;
NOIPA struct node *node_new(word size) { return &nodes[node++]; }
NOIPA void node_delete(struct node *it) {
    if (it->left) { node_delete(it->left); node_delete(it->right); }
    it->left = 0;
}
NOIPA static struct node *tree(int depth) {
    struct node *it = node_new(16);
    if (depth) { it->left = tree(depth - 1); it->right = tree(depth - 1); }
    return it;
}
void reset(void) {
    now = 2; alive[0] = alive[1] = 1; node = 0;
    for (int i = 0; i < SLOTS; i++) arena[i].used = 0;
    for (int i = 0; i < 7; i++) nodes[i].left = 0;
    threads();
    for (int i = 0; i < 12; i++) held[i] = pool_get(5);
    for (int i = 0; i < 4; i++) cache[i] = pool_get(5);
    held[12] = pool_get(5);
    for (int i = 0; i < 13; i++) pool_put(held[i]);
    node_delete(tree(2));
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

const RULES: [&str; 16] = [
    "--heap-alloc",
    "pool_move(old=arg0, size=arg1)",
    "--heap-alloc",
    "sys_move(old=arg0, size=arg1)",
    "--heap-alloc",
    "pool_get(size=arg0)",
    "--heap-free",
    "pool_put(arg0)",
    "--heap-alloc",
    "sys_get(size=arg0)",
    "--heap-free",
    "sys_put(arg0)",
    "--heap-alloc",
    "node_new(size=arg0)",
    "--heap-free",
    "node_delete(arg0)",
];

#[test]
fn what_is_anothers_counts_and_calls_of_threads_of_any_kernel_are_kept_apart() {
    let dir = scratch();
    let source = [POOL, THREADS, NESTED].concat();
    for elf in [
        riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir.path(), "riscv", &source),
        cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).build_source(dir.path(), "arm", &source),
    ] {
        let run = run_file(&elf, &RULES).expect_code(0);
        let HeapUse { total, double_frees, bad_frees, reissued, at_end, peak, .. } =
            heap::replay(&run.profile()).unwrap();
        // Twenty blocks of the threads, each of which is then resized, seventeen of the pool, seven nodes.
        assert_eq!((total.allocated.blocks, total.allocated.bytes), (64, 210 + 230 + 85 + 112), "{elf:?}: {total:?}");
        assert_eq!((total.freed.blocks, at_end.blocks), (64, 0), "{elf:?}: {total:?}");
        assert_eq!((double_frees, bad_frees, reissued), (0, 0, 0), "{elf:?}");
        assert_eq!((total.failed.blocks, total.left.blocks), (0, 0), "{elf:?}");
        // Seven nodes are the peak; the pool has at most 16 blocks.
        assert_eq!(peak.bytes, 112, "{elf:?}");
    }
}
