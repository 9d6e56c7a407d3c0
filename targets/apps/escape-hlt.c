/* Calls the host by `hlt 0x3c`, the instruction for processors that have it, which QEMU takes on Cortex-M, too; after
an `svc 0xab`, which it takes on all Arm processors but these: there it is a supervisor call. */
#include "semihosting.h"
#include "text.h"

static volatile unsigned supervisor_calls;

void SVC_Handler(void) { supervisor_calls++; }

__attribute__((naked, noinline)) static long halt(long operation, const void *block)
{
    (void)operation, (void)block;
    __asm__(".inst.n 0xbabc\n\tbx lr");
}

__attribute__((naked, noinline)) static long supervise(long operation, const void *block)
{
    (void)operation, (void)block;
    __asm__("svc 0xab\n\tbx lr");
}

int main(void)
{
    static const char path[] = "/etc/passwd";
    const uintptr_t file[3] = { (uintptr_t)path, OPEN_READ, sizeof path - 1 };
    const uintptr_t exit[2] = { 0x20026, 1 };
    supervise(0x20, exit);
    print("escape-hlt: %u supervisor call, opening %s\n", supervisor_calls, path);
    print(halt(SYS_OPEN, file) == -1 ? "refused\n" : "opened\n");
    const uintptr_t good[2] = { 0x20026, 0 };
    halt(0x20, good);
    return 1;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
