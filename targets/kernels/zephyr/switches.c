/* Counts how often the kernel switches to each thread, by the function that calls its trace hooks. After five seconds
   prints for each its address, its name, if it has one, and that number. Needs CONFIG_TRACING_USER, or before that
   option CONFIG_THREAD_RUNTIME_STATS, and the linker's --wrap=z_thread_mark_switched_in. */
#if __has_include(<zephyr/kernel.h>)
#include <zephyr/init.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>
#else
#include <init.h>
#include <sys/printk.h>
#include <zephyr.h>
#endif

#include "say.h"

static struct {
    struct k_thread *thread;
    unsigned long switches;
} threads[64];
static struct k_thread *last;

void __real_z_thread_mark_switched_in(void);

void __wrap_z_thread_mark_switched_in(void)
{
    struct k_thread *current = k_current_get();
    __real_z_thread_mark_switched_in();
    /* The kernel also calls this where it goes on with the same thread. */
    if (current == last)
        return;
    last = current;
    for (size_t place = 0; place < ARRAY_SIZE(threads); place++) {
        if (threads[place].thread == NULL)
            threads[place].thread = current;
        if (threads[place].thread == current) {
            threads[place].switches++;
            return;
        }
    }
}

static void print(struct k_timer *timer)
{
    ARG_UNUSED(timer);
    for (size_t place = 0; place < ARRAY_SIZE(threads) && threads[place].thread; place++) {
        const char *name = k_thread_name_get(threads[place].thread);
        char line[96];
        snprintk(line, sizeof line, "\nthread %p %s", (void *)threads[place].thread, name ? name : "");
        say(line, threads[place].switches);
    }
    finish();
}

K_TIMER_DEFINE(end, print, NULL);

/* Up to Zephyr 3.3 it has a parameter. */
static int start()
{
    k_timer_start(&end, K_SECONDS(5), K_NO_WAIT);
    return 0;
}

SYS_INIT(start, APPLICATION, 0);
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
