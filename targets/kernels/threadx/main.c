/* Two threads that answer each other through queues, and one that sleeps and prints how often each ran.
   Stands in place of a port's sample_threadx.c, and needs no option. */
#include "tx_api.h"

#include "say.h"

static TX_THREAD ping, pong, watcher;
static UCHAR ping_stack[2048], pong_stack[2048], watcher_stack[2048];
static TX_QUEUE there, back;
static ULONG there_words[4], back_words[4];
static volatile ULONG sum;

static __attribute__((noinline)) void work(ULONG turns)
{
    for (ULONG turn = 0; turn < turns; turn++)
        sum = sum * 31 + turn;
}

static void pings(ULONG argument)
{
    ULONG message = argument;
    for (int round = 0; round < 50; round++) {
        work(100 + round);
        tx_queue_send(&there, &message, TX_WAIT_FOREVER);
        tx_queue_receive(&back, &message, TX_WAIT_FOREVER);
    }
}

static void pongs(ULONG argument)
{
    (void)argument;
    for (;;) {
        ULONG message;
        tx_queue_receive(&there, &message, TX_WAIT_FOREVER);
        work(60);
        tx_queue_send(&back, &message, TX_WAIT_FOREVER);
    }
}

static void watches(ULONG argument)
{
    (void)argument;
    for (int nap = 0; nap < 5; nap++) {
        tx_thread_sleep(1);
        work(500);
    }
    say(ping.tx_thread_name, ping.tx_thread_run_count);
    say(pong.tx_thread_name, pong.tx_thread_run_count);
    say(watcher.tx_thread_name, watcher.tx_thread_run_count);
    finish();
}

void tx_application_define(void *memory)
{
    (void)memory;
    tx_queue_create(&there, "there", 1, there_words, sizeof there_words);
    tx_queue_create(&back, "back", 1, back_words, sizeof back_words);
    tx_thread_create(&ping, "ping", pings, 7, ping_stack, sizeof ping_stack, 4, 4, TX_NO_TIME_SLICE, TX_AUTO_START);
    tx_thread_create(&pong, "pong", pongs, 0, pong_stack, sizeof pong_stack, 5, 5, TX_NO_TIME_SLICE, TX_AUTO_START);
    tx_thread_create(&watcher, "watcher", watches, 0, watcher_stack, sizeof watcher_stack, 3, 3, TX_NO_TIME_SLICE,
                     TX_AUTO_START);
}

int main(void)
{
    tx_kernel_enter();
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
