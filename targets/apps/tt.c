/* Prints by `:tt`, as C libraries and Rust's hprintln! do it, between what goes to the UART; and says things there
   that would be taken for the emulator's own words if they came its way. */
#include "semihosting.h"
#include "text.h"

static void say(long file, const char *text)
{
    host_write(file, text, strlen(text));
}

int main(void)
{
    long out = host_open(":tt", OPEN_WRITE), err = host_open(":tt", OPEN_APPEND), in = host_open(":tt", OPEN_READ);
    for (int i = 0; i < 100; i++) {
        say(out, "tt: out\n");
        print("tt: uart\n");
        say(err, "tt: err\n");
    }
    say(out, "\xff\xfe\x80 no text\n");
    say(out, "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 6, \"minor\": 66, \"major\": 666}}, \"capabilities\": []}}\n");
    say(err, "{\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": \"guest-reset\"}}\n");
    say(err, "qemu: fatal: Lockup: can't escalate 3 to HardFault (current priority -1)\n");
    char text[16];
    for (;;) {
        long left = host_read(in, text, sizeof text);
        if (left == sizeof text)
            break;
        say(out, "tt: read ");
        host_write(out, text, sizeof text - (size_t)left);
    }
    say(out, "tt: done\n");
    board_exit(0);
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
