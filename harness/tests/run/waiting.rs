// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: firmware that waits for input ends as asleep, on every machine, and the message says how to give
//! input.

use harness::image::Arch;
use harness::machine::{MACHINES, Machine};
use harness::profile::End;

use crate::common::built::{Target, cortex_m, riscv, scratch};
use crate::common::{in_parallel, run_file};

/// Sleeps until the UART's interrupt announces a byte; `q` ends it. Each machine defines `ENABLE`, `READY`, `TAKE`,
/// and `IRQ`, the number of the UART's interrupt.
const LISTENER: &str = r#"
#define R(address) (*(volatile unsigned *)(address))
#define R8(address) (*(volatile unsigned char *)(address))
static void receive(void) {
    while (READY)
        if ((TAKE & 0xff) == 'q')
            host(0x18, STOPPED);
}
#ifdef __riscv
__attribute__((interrupt, aligned(4))) void trap(void) {
    unsigned source = R(0x0c200004);
    receive();
    R(0x0c200004) = source;
}
#else
__attribute__((used)) void on_receive(void) { receive(); }
/* The vector table goes on. */
__attribute__((section(".vec"), used)) const void *const interrupts[64] = {[IRQ] = on_receive};
#endif
void reset(void) {
    ENABLE;
#ifdef __riscv
    R(0x0c000000 + 4 * IRQ) = 1;
    R(0x0c002000) = 1 << IRQ;
    R(0x0c200000) = 0;
    __asm__ volatile("csrw mtvec, %0\n csrs mie, %1\n csrsi mstatus, 8" ::"r"(trap), "r"(1 << 11));
#else
    R(0xe000e100 + 4 * (IRQ / 32)) = 1 << IRQ % 32;
#endif
    host(4, "> ");
    for (;;)
        __asm__ volatile("wfi");
}
"#;

/// C expressions that switch a UART on, test for a byte, and take it.
struct Uart {
    enable: &'static str,
    ready: &'static str,
    take: &'static str,
}

const NS16550: Uart = Uart { enable: "R8(BASE + 1) = 1", ready: "R8(BASE + 5) & 1", take: "R8(BASE)" };
/// One read takes the byte and tells whether there was one.
const SIFIVE: Uart =
    Uart { enable: "R(BASE + 12) = 1; R(BASE + 16) = 2", ready: "(byte = R(BASE + 4)) >> 31 == 0", take: "byte" };
const NRF51: Uart = Uart {
    enable: "R(BASE + 0x500) = 4; R(BASE + 0x304) = 4; R(BASE) = 1",
    ready: "R(BASE + 0x108) && (R(BASE + 0x108) = 0, 1)",
    take: "R(BASE + 0x518)",
};
const CMSDK: Uart = Uart {
    enable: "R(BASE + 16) = 16; R(BASE + 8) = 10",
    ready: "R(BASE + 4) & 2 && (R(BASE + 12) = 2)",
    take: "R(BASE)",
};
const PL011: Uart = Uart {
    enable: "R(0x400fe104) |= 1; R(BASE + 0x30) = 0x301; R(BASE + 0x38) = 1 << 4",
    ready: "!(R(BASE + 0x18) & 1 << 4)",
    take: "R(BASE)",
};
const STM32F: Uart =
    Uart { enable: "R(BASE + 12) = 1 << 13 | 1 << 5 | 1 << 2", ready: "R(BASE) & 1 << 5", take: "R(BASE + 4)" };
const STM32L: Uart =
    Uart { enable: "R(BASE) = 1 << 5 | 1 << 2 | 1", ready: "R(BASE + 28) & 1 << 5", take: "R(BASE + 36)" };

/// The first UART of a machine: its registers, base address, and interrupt number.
fn uart(machine: &Machine) -> (Uart, u64, u32) {
    match &*machine.name {
        "virt" => (NS16550, 0x1000_0000, 10),
        "sifive_e" => (SIFIVE, 0x1001_3000, 3),
        "microbit" => (NRF51, 0x4000_2000, 2),
        "mps2-an385" | "mps2-an386" | "mps2-an500" => (CMSDK, 0x4000_4000, 0),
        "mps2-an505" | "mps2-an521" => (CMSDK, 0x5020_0000, 32),
        "mps3-an547" => (CMSDK, 0x5930_3000, 33),
        "lm3s6965evb" => (PL011, 0x4000_c000, 5),
        "stm32vldiscovery" => (STM32F, 0x4001_3800, 37),
        "netduinoplus2" | "netduino2" | "olimex-stm32-h405" => (STM32F, 0x4001_1000, 37),
        "b-l475e-iot01a" => (STM32L, 0x4001_3800, 37),
        name => panic!("{name}: where is its UART? Say it here"),
    }
}

/// Compiler and memory layout for a machine.
fn target(machine: &Machine) -> Target {
    let small = |cpu: &str, code| cortex_m(&format!("-mcpu={cpu}"), code, 0x2000_0000, 0x2000_2000);
    match (&*machine.name, machine.isa) {
        ("virt", "riscv64") => riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000),
        ("virt", _) => riscv(32, 0x8000_0000, 0x8000_0000, 0x8001_0000),
        ("sifive_e", "riscv64") => riscv(64, 0x2040_0000, 0x8000_0000, 0x8000_4000),
        ("sifive_e", _) => riscv(32, 0x2040_0000, 0x8000_0000, 0x8000_4000),
        ("microbit", _) => small("cortex-m0", 0),
        ("mps2-an505" | "mps2-an521", _) => {
            cortex_m("-mcpu=cortex-m33+nodsp+nofp -mfloat-abi=soft", 0x1000_0000, 0x3800_0000, 0x3800_4000)
        }
        ("mps3-an547", _) => small("cortex-m33+nodsp+nofp -mfloat-abi=soft", 0),
        (_, "thumb-v7m") => small("cortex-m3", if machine.is_late { 0x0800_0000 } else { 0 }),
        (name, isa) => panic!("{name}, {isa}: where is its memory? Say it here"),
    }
}

#[test]
fn firmware_that_waits_for_input_on_any_machine_is_asleep_and_is_told_how_to_give_it_some() {
    let dir = scratch();
    // QEMU's AVR does not sleep: its `sleep` goes on at once (docs/arduino.md).
    let machines: Vec<(usize, &Machine)> =
        MACHINES.iter().enumerate().filter(|(_, machine)| machine.arch != Arch::Avr).collect();
    in_parallel(&machines, |&(index, machine)| {
        let (Uart { enable, ready, take }, base, irq) = uart(machine);
        let defines = format!(
            "#define BASE {base:#x}ul\n#define IRQ {irq}\n#define ENABLE {enable}\n#define READY ({ready})\n\
             #define TAKE ({take})\nstatic unsigned byte;\n"
        );
        // Keeps the tables in one section in their order.
        let target = target(machine).with("-fno-toplevel-reorder");
        let elf = target.build_source(dir.path(), &format!("wait{index}"), &[&defines, LISTENER].concat());
        // Without this limit a run that never ends would be ended by the host's time.
        let args = ["--machine", &machine.name, "--timeout", "120", "--for", "10G"];
        let title = machine.title();
        let silent = run_file(&elf, &args).expect_code(1);
        assert!(matches!(silent.profile().facts.end, End::Asleep { .. }), "{title}: {}", silent.stdout);
        assert!(silent.stdout.contains("--input-after 'PROMPT:TEXT' types it"), "{title}: {}", silent.stdout);
        assert_eq!(silent.profile().facts.waits, 1, "{title}");
        // The awaited input comes, twice; then it waits for more.
        let typed = run_file(&elf, &[&args[..], &["--input-after", "> :ab"]].concat()).expect_code(1);
        assert!(matches!(typed.profile().facts.end, End::Asleep { .. }), "{title}: {}", typed.stdout);
        assert_eq!(typed.profile().facts.waits, 3, "{title}: {}", typed.stdout);
        let quit = run_file(&elf, &[&args[..], &["--input-after", "> :abq"]].concat()).expect_code(0);
        assert!(matches!(quit.profile().facts.end, End::Exit { status: 0, .. }), "{title}: {}", quit.stdout);
    });
}

/// Waits for an interrupt of a RISC-V timer that is set to the highest value, as by firmware that wants no interrupt.
const NO_TIMER: &str = r#"
volatile int spurious;
__attribute__((interrupt, aligned(4))) void trap(void) { spurious++; *(volatile unsigned long *)0x02004000 = 0; }
void reset(void) {
    *(volatile unsigned long *)0x02004000 = -1ul;
    __asm__ volatile("csrw mtvec, %0\n csrs mie, %1\n csrsi mstatus, 8" ::"r"(trap), "r"(1 << 7));
    for (;;)
        __asm__ volatile("wfi");
}
"#;

#[test]
fn a_timer_that_is_set_to_never_does_not_expire() {
    let dir = scratch();
    let elf = riscv(64, 0x8000_0000, 0x8000_0000, 0x8001_0000).build_source(dir.path(), "never", NO_TIMER);
    let run = run_file(&elf, &["--timeout", "120"]).expect_code(1);
    let profile = run.profile();
    assert!(matches!(profile.facts.end, End::Asleep { .. }), "{}", run.stdout);
    assert_eq!(profile.facts.waits, 1, "{}", run.stdout);
}

/// The watchdog expires while the CPU sleeps, with its interrupt disabled everywhere. QEMU's device then sets its
/// timer to the end of time, over and over.
const WATCHDOG: &str = r#"
#define AON(offset) (*(volatile unsigned *)(0x10000000 + (offset)))
void reset(void) {
    AON(0x1c) = 0x51f15e;
    AON(0x20) = 100;
    AON(0x1c) = 0x51f15e;
    AON(0) = 1 << 12;
    for (;;)
        __asm__ volatile("wfi");
}
"#;

#[test]
fn a_qemu_that_is_busy_for_ever_while_the_cpu_sleeps_is_ended_and_its_profile_the_same_each_time() {
    let dir = scratch();
    let elf = riscv(32, 0x2040_0000, 0x8000_0000, 0x8000_4000).build_source(dir.path(), "watchdog", WATCHDOG);
    let once = || {
        let run = run_file(&elf, &["--machine", "sifive_e", "--timeout", "300"]).expect_code(1);
        assert!(matches!(run.profile().facts.end, End::Asleep { .. }), "{}", run.stdout);
        run.files()
    };
    assert!(once() == once());
}
