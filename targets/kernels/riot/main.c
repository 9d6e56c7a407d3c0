/* Two threads that answer each other by messages, and a third that sleeps by the timer, if RIOT is built with one (the
   module ztimer_usec); main waits for them, and prints how often the scheduler switched to each thread that still
   lives. Needs the modules core_msg and schedstatistics, and DEVELHELP. */
#include "msg.h"
#include "mutex.h"
#include "sched.h"
#include "schedstatistics.h"
#include "thread.h"
#ifdef MODULE_ZTIMER_USEC
#include "ztimer.h"
#endif

#include "say.h"

static char ping_stack[THREAD_STACKSIZE_MAIN], pong_stack[THREAD_STACKSIZE_MAIN];
static kernel_pid_t pong_pid;
static volatile unsigned sum;
static mutex_t end = MUTEX_INIT_LOCKED;

static __attribute__((noinline)) void work(unsigned turns)
{
    for (unsigned turn = 0; turn < turns; turn++)
        sum = sum * 31 + turn;
}

static void *ping(void *argument)
{
    msg_t question = { .type = 1 }, answer;
    for (int round = 0; round < 50; round++) {
        work(100 + round);
        msg_send_receive(&question, &answer, pong_pid);
    }
    mutex_unlock(&end);
    return argument;
}

static void *pong(void *argument)
{
    for (;;) {
        msg_t question, answer = { .type = 2 };
        msg_receive(&question);
        work(60);
        msg_reply(&question, &answer);
    }
    return argument;
}

#ifdef MODULE_ZTIMER_USEC
static char sleeper_stack[THREAD_STACKSIZE_MAIN];
static mutex_t slept = MUTEX_INIT_LOCKED;

static void *sleeper(void *argument)
{
    for (int nap = 0; nap < 20; nap++) {
        work(40);
        ztimer_sleep(ZTIMER_USEC, 300);
    }
    mutex_unlock(&slept);
    /* It lives on, so that main counts it. */
    for (;;)
        thread_sleep();
    return argument;
}
#endif

int main(void)
{
#ifdef MODULE_ZTIMER_USEC
    thread_create(sleeper_stack, sizeof sleeper_stack, THREAD_PRIORITY_MAIN - 3, 0, sleeper, NULL, "sleeper");
    mutex_lock(&slept);
#endif
    pong_pid = thread_create(pong_stack, sizeof pong_stack, THREAD_PRIORITY_MAIN - 1, 0, pong, NULL, "pong");
    thread_create(ping_stack, sizeof ping_stack, THREAD_PRIORITY_MAIN - 2, THREAD_CREATE_WOUT_YIELD, ping, NULL, "ping");
    mutex_lock(&end);
    for (kernel_pid_t pid = KERNEL_PID_FIRST; pid <= KERNEL_PID_LAST; pid++) {
        thread_t *thread = thread_get(pid);
        if (thread && sched_pidlist[pid].schedules)
            say(thread_get_name(thread), sched_pidlist[pid].schedules);
    }
    finish();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
