/* Two threads that answer each other by messages; main waits for them, and prints how often the scheduler switched to
   each thread that still lives. */
#include "msg.h"
#include "mutex.h"
#include "sched.h"
#include "schedstatistics.h"
#include "thread.h"

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

int main(void)
{
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
