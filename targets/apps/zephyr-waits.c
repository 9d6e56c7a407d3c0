/* A thread that waits for each thing that Zephyr has, a known number of times, and main, which ends each wait:
   harness/tests/timeline knows the numbers. Each thread takes memory from the kernel's heap and gives it back. */
#define OWN_THREADS
#include "zephyr.c"
#include "zone.h"

enum { SLEEPING = 4, SUSPENDED = 16, SLEPT = 4, STOPPED = 9, RESTS = 3 };

struct k_sem {
    _wait_q_t wait_q;
    uint32_t count, limit;
};
struct k_mutex {
    _wait_q_t wait_q;
    struct k_thread *owner;
};
struct k_msgq {
    _wait_q_t wait_q;
    size_t msg_size;
    uint32_t max_msgs;
    char *buffer_start;
    uint32_t used_msgs;
};
struct k_queue {
    void *data_q[2];
    _wait_q_t wait_q;
};
struct k_fifo {
    struct k_queue _queue;
};
struct k_condvar {
    _wait_q_t wait_q;
};

static struct k_sem ready, forks[3];
static struct k_mutex bus;
static struct k_msgq inbox = { .max_msgs = 4 }, outbox = { .max_msgs = 4, .used_msgs = 4 };
static struct k_fifo jobs;
static struct {
    uint32_t number;
    struct k_condvar changed;
} state;
static _wait_q_t raw;
static struct sys_heap {
    size_t used;
} heap;

static const struct {
    _wait_q_t *queue;
    int times;
} waits_for[] = {
    { &ready.wait_q, 5 }, { &forks[1].wait_q, 1 }, { &bus.wait_q, 2 }, { &inbox.wait_q, 7 }, { &outbox.wait_q, 4 },
    { &jobs._queue.wait_q, 3 }, { &state.changed.wait_q, 6 }, { &raw, 2 }, { &philosophers[1].join_queue, 1 },
};

static struct k_thread *const waiting = &philosophers[0];
static volatile uint32_t ticks_left[THREADS];

__attribute__((noipa)) void *sys_heap_alloc(struct sys_heap *of, size_t bytes)
{
    static char arena[2048] __attribute__((aligned(8)));
    bytes = (bytes + 7) & ~7u;
    if (of->used + bytes > sizeof arena)
        return 0;
    of->used += bytes;
    return arena + of->used - bytes;
}

__attribute__((noipa)) void sys_heap_free(struct sys_heap *of, void *memory) { (void)of, (void)memory; }

__attribute__((noipa)) void *k_malloc(size_t size)
{
    irq_disable();
    void *memory = sys_heap_alloc(&heap, size);
    irq_enable();
    return memory;
}

__attribute__((noipa)) void k_free(void *memory) { sys_heap_free(&heap, memory); }

/* Takes `count` pieces of `size` bytes, and gives back all but one. */
static __attribute__((noipa)) void takes(int count, uint32_t size)
{
    for (int piece = 0; piece < count; piece++) {
        void *memory = k_malloc(size);
        if (piece)
            k_free(memory);
    }
}

static void run(struct k_thread *thread)
{
    thread->base.thread_state = 0;
    thread->base.pended_on = 0;
    thread->base.timeout.node.next = 0;
    _kernel.ready_q.cache = thread;
    ICSR = PENDSVSET;
}

void TIMER_HANDLER(void)
{
    for (int number = 0; number < THREADS; number++)
        if (ticks_left[number] && !--ticks_left[number])
            run(threads[number]);
}

/* Before 4.1 a thread that sleeps is suspended and has a timeout; since then it has a state of its own. */
static __attribute__((noipa)) void sleep(int number, uint32_t ticks_to_sleep, int thread_state)
{
    irq_disable();
    threads[number]->base.timeout.node.next = &threads[number]->base.timeout.node;
    ticks_left[number] = ticks_to_sleep;
    z_swap(thread_state);
}

static __attribute__((noipa)) void philosopher(void *number, void *p2, void *p3)
{
    (void)p2, (void)p3;
    if (number) {
        takes(2, 100);
        return;
    }
    takes(3, 40);
    ZONE_BEGIN("waits");
    for (unsigned row = 0; row < sizeof waits_for / sizeof *waits_for; row++)
        for (int time = 0; time < waits_for[row].times; time++) {
            waiting->base.pended_on = waits_for[row].queue;
            z_swap(PENDING);
        }
    for (int time = 0; time < STOPPED; time++)
        z_swap(SUSPENDED);
    for (int time = 0; time < SLEPT; time++) {
        sleep(1, 1, SUSPENDED);
        sleep(1, 1, SLEEPING);
    }
    ZONE_END("waits");
}

static __attribute__((noipa)) void bg_thread_main(void *p1, void *p2, void *p3)
{
    (void)p1, (void)p2, (void)p3;
    unsigned digs = 0;
    z_swap(0);
    while (!(waiting->base.thread_state & DEAD)) {
        if (waiting->base.thread_state && !ticks_left[1]) {
            irq_disable();
            run(waiting);
            irq_enable();
            __asm__ volatile("isb" ::: "memory");
        }
        ZONE_BEGIN("digs");
        sums[0] += dine(1, sums[0]);
        ZONE_END("digs");
        digs++;
    }
    for (int rest = 0; rest < RESTS; rest++)
        sleep(0, 2, SUSPENDED);
    timer_stop();
    print("zephyr-waits: main %u, first %u, second %u, idle %u\n", (unsigned)z_main_thread.switched_in,
          (unsigned)philosophers[0].switched_in, (unsigned)philosophers[1].switched_in, (unsigned)z_idle_thread.switched_in);
    print("digs %u\n", digs);
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
