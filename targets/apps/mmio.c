/* Device accesses in the middle of straight-line code: QEMU executes each in a block of its own under
   icount. With a timer interrupt besides. */
#include "board.h"
#include "text.h"
#include "work.h"

#define REG32(a) (*(volatile uint32_t *)(uintptr_t)(a))
#define REG8(a) (*(volatile uint8_t *)(uintptr_t)(a))

enum { ROUNDS = 100000 };

static volatile uint32_t ticks;

void TIMER_HANDLER(void) { ticks++; }

#ifdef __riscv
static inline uint32_t uart_status(void) { return REG8(0x10000005); }
static inline uint32_t timer_value(void) { return REG32(0x0200bff8); }
static inline void scratch(uint32_t x) { REG8(0x10000007) = (uint8_t)x; } /* the UART's scratch register */
static inline uint32_t scratched(void) { return REG8(0x10000007); }
#else
static inline uint32_t uart_status(void) { return REG32(0x40004004); }
static inline uint32_t timer_value(void) { return REG32(0xe000e018); }
static inline void scratch(uint32_t x) { REG32(0x40004010) = 16 + (x & 0xff); } /* the UART's baud rate */
static inline uint32_t scratched(void) { return REG32(0x40004010) - 16; }
#endif

static __attribute__((noipa)) uint32_t round_of_accesses(uint32_t x)
{
    x = rotate_left(x, 3) + 7;
    uint32_t status = uart_status();
    x ^= x >> 9;
    scratch(x);
    uint32_t before = timer_value();
    x = x * 5 + status;
    x ^= scratched() << 8;
    uint32_t after = timer_value();
    x += (before | after) == 0; /* 0 both times: never in practice, and the compiler does not know */
    return mix(x, status);
}

int main(void)
{
    uint32_t sum = 0;
    print("mmio: %u rounds of 5 accesses\n", (unsigned)ROUNDS);
    timer_start(10000);
    for (uint32_t i = 0; i < ROUNDS; i++)
        sum = round_of_accesses(sum);
    timer_stop();
    print("ticks %u\n", (unsigned)ticks);
    print("sum %08x\n", (unsigned)sum);
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
