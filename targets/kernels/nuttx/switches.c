/* A program for NuttX's shell: how often the kernel has switched to each task, by the hook that it calls with
   CONFIG_SCHED_INSTRUMENTATION_SWITCH; then the run ends, before another switch. NuttX itself builds it, as any
   application of its own, without CONFIG_DRIVERS_NOTE, whose functions have the same names. */
#include <nuttx/config.h>
#include <nuttx/sched.h>
#include <nuttx/sched_note.h>

#include "say.h"

static struct {
    pid_t pid;
    unsigned long switches;
    char name[CONFIG_TASK_NAME_SIZE + 1];
} tasks[64] = { { 0, 1, "Idle_Task" } }; /* The kernel's start becomes it, without a switch. */
static FAR struct tcb_s *last;

void sched_note_start(FAR struct tcb_s *tcb) { (void)tcb; }

void sched_note_stop(FAR struct tcb_s *tcb) { (void)tcb; }

void sched_note_suspend(FAR struct tcb_s *tcb) { (void)tcb; }

void sched_note_resume(FAR struct tcb_s *tcb)
{
    /* Where a task ends, the kernel calls this twice for the next one. */
    if (tcb == last)
        return;
    last = tcb;
    const char *name = tcb->name;
    unsigned place = 0;
    while (place < 63 && tasks[place].switches && tasks[place].pid != tcb->pid)
        place++;
    tasks[place].pid = tcb->pid;
    tasks[place].switches++;
    for (int at = 0; at < CONFIG_TASK_NAME_SIZE; at++) {
        tasks[place].name[at] = *name;
        if (*name)
            name++;
    }
}

int main(int count, char **words)
{
    (void)count, (void)words;
    say("\nswitches of all", 0);
    for (unsigned place = 0; place < 64; place++)
        if (tasks[place].switches)
            say(tasks[place].name, tasks[place].switches);
    finish();
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
