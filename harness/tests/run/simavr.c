/* SPDX-License-Identifier: MIT OR Apache-2.0 */
// Judge of `--cycles`: runs an AVR program in simavr from reset up to an address, and prints the cycles, the instructions
// and the skipped instructions. USART0 is always ready and prints nothing, as in QEMU no program waits for it.
// With a function's address, a line before has the number of its calls, of which none is within another, and their cycles.
// With a length, a line before each time has the instructions so far, a multiple of it, and the cycles; skipped instructions
// count, and where one would be the last of them there is no line. These lines begin with =, those of simavr do not.
// Usage: simavr FILE MCU STOP [FUNCTION LENGTH]
#include <inttypes.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_io.h>
#include <stdio.h>
#include <stdlib.h>

enum { UCSR0A = 0xc0, UDR0 = 0xc6, READY = 0x20, MOST_CYCLES = 1000000000 };

static uint8_t ready(struct avr_t *avr, avr_io_addr_t addr, void *param) {
    return READY;
}

static void drop(struct avr_t *avr, avr_io_addr_t addr, uint8_t value, void *param) {}

// Whether an instruction may skip the next one: cpse, sbrc, sbrs, sbic, sbis.
static int skips(unsigned insn) {
    return (insn & 0xfc00) == 0x1000 || (insn & 0xfc08) == 0xfc00 || (insn & 0xfd00) == 0x9900;
}

static unsigned stack_pointer(avr_t *avr) {
    return avr->data[R_SPL] | avr->data[R_SPH] << 8;
}

int main(int argc, char **argv) {
    elf_firmware_t firmware = {0};
    if ((argc != 4 && argc != 6) || elf_read_firmware(argv[1], &firmware) != 0) {
        return 2;
    }
    avr_t *avr = avr_make_mcu_by_name(argv[2]);
    uint32_t stop = strtoul(argv[3], NULL, 16);
    if (!avr || avr_init(avr) != 0) {
        return 2;
    }
    avr_load_firmware(avr, &firmware);
    avr->io[AVR_DATA_TO_IO(UCSR0A)].r.c = ready;
    avr->io[AVR_DATA_TO_IO(UDR0)].w.c = drop;
    // One instruction each time.
    avr->run_cycle_limit = 1;
    uint32_t function = argc > 4 ? strtoul(argv[4], NULL, 16) : UINT32_MAX;
    uint64_t length = argc > 5 ? strtoull(argv[5], NULL, 10) : UINT64_MAX;
    uint64_t insns = 0, skipped = 0, calls = 0, in_calls = 0, began = 0;
    unsigned sp = 0;
    int is_called = 0;
    while (avr->pc != stop && avr->cycle < MOST_CYCLES && avr->state == cpu_Running) {
        uint32_t pc = avr->pc;
        unsigned insn = avr->flash[pc] | avr->flash[pc + 1] << 8;
        if (is_called && stack_pointer(avr) > sp) {
            calls++;
            in_calls += avr->cycle - began;
            is_called = 0;
        }
        if (pc == function && !is_called) {
            began = avr->cycle;
            sp = stack_pointer(avr);
            is_called = 1;
        }
        if (insns > 0 && (insns + skipped) % length == 0)
            printf("= %" PRIu64 " %" PRIu64 "\n", insns + skipped, (uint64_t)avr->cycle);
        avr_run(avr);
        insns++;
        skipped += skips(insn) && avr->pc != pc + 2;
    }
    if (argc > 4)
        printf("= %" PRIu64 " %" PRIu64 "\n", calls, in_calls);
    printf("= %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", (uint64_t)avr->cycle, insns, skipped);
    return avr->pc == stop ? 0 : 1;
}
