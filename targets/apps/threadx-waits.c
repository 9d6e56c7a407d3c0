/* A thread that waits for each thing that ThreadX has, a known number of times, and one that ends each wait:
   harness/tests/timeline knows the numbers. Both take memory from a byte pool and a block pool, and give it back. */
#define OWN_THREADS
#include "threadx.c"
#include "zone.h"

enum { QUEUE = 5, SEMAPHORE = 6, EVENT_FLAG = 7, BLOCK = 8, BYTE = 9, MUTEX = 13, SUSPENDED = 3 };
enum { SLEPT = 8, STOPPED = 9, RESTS = 3, BLOCK_BYTES = 24, BLOCKS = 8 };

typedef struct TX_QUEUE_STRUCT {
    uint32_t tx_queue_id;
    char *tx_queue_name;
    uint32_t tx_queue_message_size, tx_queue_capacity, tx_queue_enqueued, tx_queue_available_storage;
} TX_QUEUE;
typedef struct TX_SEMAPHORE_STRUCT {
    uint32_t tx_semaphore_id;
    char *tx_semaphore_name;
    uint32_t tx_semaphore_count;
} TX_SEMAPHORE;
typedef struct TX_MUTEX_STRUCT {
    uint32_t tx_mutex_id;
    char *tx_mutex_name;
    TX_THREAD *tx_mutex_owner;
} TX_MUTEX;
typedef struct TX_EVENT_FLAGS_GROUP_STRUCT {
    uint32_t tx_event_flags_group_id;
    char *tx_event_flags_group_name;
    uint32_t tx_event_flags_group_current;
} TX_EVENT_FLAGS_GROUP;
typedef struct TX_BYTE_POOL_STRUCT {
    uint32_t tx_byte_pool_id;
    char *tx_byte_pool_name;
    uint32_t tx_byte_pool_available;
} TX_BYTE_POOL;
typedef struct TX_BLOCK_POOL_STRUCT {
    uint32_t tx_block_pool_id;
    char *tx_block_pool_name;
    uint32_t tx_block_pool_available, tx_block_pool_total;
    uint8_t *tx_block_pool_available_list, *tx_block_pool_start;
    uint32_t tx_block_pool_size, tx_block_pool_block_size;
} TX_BLOCK_POOL;

static TX_QUEUE inbox = { 0, "inbox", 1, 4, 0, 4 }, outbox = { 0, "outbox", 1, 4, 4, 0 };
static TX_SEMAPHORE ready = { 0, "ready", 0 }, unnamed = { 0, 0, 0 };
static TX_MUTEX bus = { 0, "bus", 0 };
static TX_EVENT_FLAGS_GROUP flags = { 0, "flags", 0 };
static TX_BYTE_POOL bytes = { 0, "bytes", 0 };
static uint8_t block_memory[BLOCKS * BLOCK_BYTES] __attribute__((aligned(8)));
static TX_BLOCK_POOL blocks = { 0, "blocks", BLOCKS, BLOCKS, 0, block_memory, sizeof block_memory, BLOCK_BYTES };

static TX_THREAD waiting, ending;

static const struct {
    uint32_t state;
    void *object;
    int times;
} waits_for[] = {
    { QUEUE, &inbox, 7 }, { QUEUE, &outbox, 4 }, { SEMAPHORE, &ready, 5 }, { SEMAPHORE, &unnamed, 1 }, { MUTEX, &bus, 2 },
    { EVENT_FLAG, &flags, 6 }, { BLOCK, &blocks, 3 }, { BYTE, &bytes, 2 },
};

__attribute__((noipa)) uint32_t _tx_byte_allocate(TX_BYTE_POOL *pool, void **memory, uint32_t size, uint32_t wait)
{
    static uint8_t arena[2048] __attribute__((aligned(8)));
    static uint32_t used;
    (void)pool, (void)wait;
    irq_disable();
    size = (size + 7) & ~7u;
    *memory = 0;
    uint32_t status = 0x10; /* TX_NO_MEMORY */
    if (used + size <= sizeof arena) {
        *memory = arena + used;
        used += size;
        status = 0;
    }
    irq_enable();
    return status;
}

__attribute__((noipa)) uint32_t _tx_byte_release(void *memory)
{
    return memory ? 0 : 3;
}

__attribute__((noipa)) uint32_t _tx_block_allocate(TX_BLOCK_POOL *pool, void **block, uint32_t wait)
{
    (void)wait;
    if (!pool->tx_block_pool_available)
        return 0x10;
    *block = pool->tx_block_pool_start + --pool->tx_block_pool_available * pool->tx_block_pool_block_size;
    return 0;
}

/* Blocks are not given out again. */
__attribute__((noipa)) uint32_t _tx_block_release(void *block)
{
    return block ? 0 : 3;
}

/* Takes `count` pieces of `size` bytes and a block, and gives back the block and all but one piece. */
static __attribute__((noipa)) void takes(int count, uint32_t size)
{
    void *memory, *block;
    _tx_block_allocate(&blocks, &block, 0);
    for (int piece = 0; piece < count; piece++) {
        _tx_byte_allocate(&bytes, &memory, size, 0);
        if (piece)
            _tx_byte_release(memory);
    }
    _tx_block_release(block);
}

void TIMER_HANDLER(void)
{
    TX_THREAD *const threads[] = { &waiting, &ending };
    for (int number = 0; number < 2; number++) {
        TX_THREAD *thread = threads[number];
        if (thread->tx_thread_state == TX_SLEEP && !--thread->tx_remaining_ticks) {
            thread->tx_thread_state = TX_READY;
            _tx_thread_execute_ptr = thread;
            if (_tx_thread_current_ptr)
                ICSR = PENDSVSET;
        }
    }
}

static void waits(uint32_t argument)
{
    (void)argument;
    takes(3, 40);
    ZONE_BEGIN("waits");
    for (unsigned row = 0; row < sizeof waits_for / sizeof *waits_for; row++)
        for (int time = 0; time < waits_for[row].times; time++) {
            waiting.tx_thread_suspend_control_block = waits_for[row].object;
            leave(waits_for[row].state);
        }
    for (int time = 0; time < STOPPED; time++)
        leave(SUSPENDED);
    for (int time = 0; time < SLEPT; time++)
        tx_thread_sleep(1);
    ZONE_END("waits");
}

static void ends(uint32_t argument)
{
    (void)argument;
    unsigned digs = 0;
    takes(2, 100);
    while (waiting.tx_thread_state != TX_COMPLETED) {
        if (waiting.tx_thread_state != TX_SLEEP) {
            irq_disable();
            waiting.tx_thread_state = TX_READY;
            _tx_thread_execute_ptr = &waiting;
            ICSR = PENDSVSET;
            irq_enable();
            __asm__ volatile("isb" ::: "memory");
        }
        ZONE_BEGIN("digs");
        sums[0] += dig(1, sums[0]);
        ZONE_END("digs");
        digs++;
    }
    for (int rest = 0; rest < RESTS; rest++)
        tx_thread_sleep(2);
    timer_stop();
    print("threadx-waits: waiting %u, ending %u, idle %u\n", (unsigned)waiting.tx_thread_run_count,
          (unsigned)ending.tx_thread_run_count, (unsigned)idles);
    print("digs %u\n", digs);
    board_exit(0);
}

int main(void)
{
    create(&waiting, "waiting", waits, 0);
    create(&ending, "ending", ends, 1);
    _tx_thread_execute_ptr = &waiting;
    timer_start(3000);
    start();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
