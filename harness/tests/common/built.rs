// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small images, compiled at test time so that each test shows its firmware. Without the cross compilers (`ci/setup
//! --tests`) the tests fail.

#![allow(dead_code, reason = "each test file uses its part")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Common start of every image: `reset` sets a stack, and `host` makes semihosting calls.
const PROLOGUE: &str = r#"
#ifdef __riscv
__asm__(".globl _start\n_start: la sp, stack_top\n j reset\n");
static void host(int op, const void *arg) {
    register int a0 __asm__("a0") = op;
    register const void *a1 __asm__("a1") = arg;
    __asm__ volatile(".balign 16\n.option push\n.option norvc\nslli x0,x0,0x1f\nebreak\nsrai x0,x0,7\n"
                     ".option pop" : "+r"(a0) : "r"(a1) : "memory");
}
#if __riscv_xlen == 64
static const unsigned long stopped[2] = {0x20026, 0};
#define STOPPED stopped
#else
#define STOPPED ((void *)0x20026)
#endif
#else
extern char stack_top[];
void reset(void);
__attribute__((section(".vec"), used)) const void *const vectors[16] = {stack_top, reset};
static void host(int op, const void *arg) {
    register int r0 __asm__("r0") = op;
    register const void *r1 __asm__("r1") = arg;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}
#define STOPPED ((void *)0x20026)
#endif
"#;

/// Firmware that prints `ok` and exits; it prints `bad` when its data are not where they were linked.
const SOURCE: &str = r#"
extern char data_load[], data_start[], data_end[];
volatile int data = 42;
volatile int bss;
__attribute__((noinline)) int twice(int x) { return x + x; }
void reset(void) {
    for (char *from = data_load, *to = data_start; to != data_start + (data_end - data_start); )
        *(volatile char *)to++ = *from++;
#if defined(__ARM_FP) && !defined(__SOFTFP__)
    *(volatile unsigned *)0xE000ED88 |= 0xF << 20;
    __asm__ volatile("dsb\n isb\n vadd.f32 s0, s0, s0");
#endif
    host(4, data == 42 && bss == 0 && twice(data) == 84 ? "ok\n" : "bad\n");
    host(0x18, STOPPED);
    for (;;) {}
}
"#;

/// Firmware that calls itself `DEPTH` times, `ROUNDS` times, above variables of 1,280 bytes.
pub(crate) const GROWING: &str = r#"
volatile unsigned counters[64];
volatile char table[1024];
__attribute__((noinline)) int deeper(int depth) {
    volatile char frame[40];
    frame[0] = depth;
    return depth == 0 ? frame[0] : deeper(depth - 1) + frame[0];
}
__attribute__((noinline)) void work(void) {
    for (int round = 0; round < ROUNDS; round++) {
        counters[round & 63]++;
        table[round & 1023]++;
        deeper(DEPTH);
    }
    for (volatile int i = 0; i < 10000; i++) {}
}
void reset(void) { work(); host(4, "done\n"); host(0x18, STOPPED); for (;;) {} }
"#;

/// Compiler, flags and memory layout of an image.
#[derive(Clone)]
pub(crate) struct Target {
    compiler: &'static str,
    flags: Vec<String>,
    code: u64,
    ram: u64,
    stack_top: u64,
    bss_bytes: u64,
}

/// Target for a Cortex-M image: `flags` name the processor, the vector table is at `code`.
pub(crate) fn cortex_m(flags: &str, code: u64, ram: u64, stack_top: u64) -> Target {
    Target {
        compiler: "arm-none-eabi-gcc",
        flags: flags.split(' ').chain(["-mthumb"]).map(str::to_owned).collect(),
        code,
        ram,
        stack_top,
        bss_bytes: 0,
    }
}

/// Target for a RISC-V image of 64 or 32 bits.
pub(crate) fn riscv(bits: u32, code: u64, ram: u64, stack_top: u64) -> Target {
    let abi = if bits == 64 { "lp64" } else { "ilp32" };
    Target {
        compiler: "riscv64-unknown-elf-gcc",
        flags: vec![format!("-march=rv{bits}imac_zicsr"), format!("-mabi={abi}"), "-mcmodel=medany".to_owned()],
        code,
        ram,
        stack_top,
        bss_bytes: 0,
    }
}

impl Target {
    /// Adds compiler options; a later one wins.
    pub(crate) fn with(mut self, flags: &str) -> Self {
        self.flags.extend(flags.split(' ').map(str::to_owned));
        self
    }

    /// Reserves a number of bytes of memory that starts as zero.
    pub(crate) fn with_bss(mut self, bytes: u64) -> Self {
        self.bss_bytes = bytes;
        self
    }

    /// Compiles and links it to `dir/name.elf`.
    pub(crate) fn build(&self, dir: &Path, name: &str) -> PathBuf {
        self.build_source(dir, name, SOURCE)
    }

    /// Builds firmware with another `reset`; its data are not initialised before.
    pub(crate) fn build_source(&self, dir: &Path, name: &str, source_text: &str) -> PathBuf {
        self.build_whole(dir, name, &[PROLOGUE, source_text].concat())
    }

    /// Builds firmware with start-up code of its own.
    pub(crate) fn build_whole(&self, dir: &Path, name: &str, source_text: &str) -> PathBuf {
        let (source, script, elf) =
            (dir.join(format!("{name}.c")), dir.join(format!("{name}.ld")), dir.join(format!("{name}.elf")));
        fs::write(&source, source_text).unwrap();
        let mut text = format!(
            "SECTIONS {{\n\
             .text {:#x} : {{ KEEP(*(.vec)) *(.text*) *(.rodata*) . = ALIGN(16); }}\n",
            self.code
        );
        // Code and data in one memory lie one after the other, with nothing to copy.
        if self.ram == self.code {
            text.push_str(".data : { data_start = .; *(.data* .sdata*) data_end = .; }\n");
        } else {
            let _ = writeln!(
                text,
                ".data {:#x} : AT(LOADADDR(.text) + SIZEOF(.text)) {{ data_start = .; *(.data* .sdata*) \
                 data_end = .; }}",
                self.ram
            );
        }
        let _ = writeln!(
            text,
            "data_load = LOADADDR(.data);\n.bss : {{ *(.bss* .sbss*) . += {:#x}; }}\nstack_top = {:#x};\n}}",
            self.bss_bytes, self.stack_top
        );
        fs::write(&script, text).unwrap();
        run(Command::new(self.compiler)
            .args(["-O1", "-g", "-ffreestanding", "-nostdlib", "-nostartfiles", "-fno-builtin"])
            .args(&self.flags)
            .args(["-Wl,-z,max-page-size=4096", "-Wl,--no-warn-rwx-segments"])
            .arg("-T")
            .arg(&script)
            .arg(&source)
            .arg("-o")
            .arg(&elf));
        elf
    }
}

/// Many functions without call frame information. Each must be followed before the firmware runs, which takes more
/// than a second on any machine. The firmware never ends.
const FUNCTIONS: &str = r#"
__asm__(".altmacro\n.macro function number\n.type f\\number, @function\nf\\number: nop\n.size f\\number, 4\n.endm\n"
        ".set number, 0\n.rept 400000\n function %number\n .set number, number + 1\n.endr\n.noaltmacro\n");
void reset(void) { for (;;) {} }
"#;

/// Builds an image that takes long to read.
pub(crate) fn slow_to_read(dir: &Path) -> PathBuf {
    riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir, "slow", FUNCTIONS)
}

/// Debug information with nested inlined functions, to a given depth, in assembly: gcc only nests as deep as its
/// input.
fn inlined(depth: usize) -> String {
    // DW_TAG_compile_unit, DW_TAG_subprogram and DW_TAG_inlined_subroutine (DWARF 4, 7.5), each with children.
    format!(
        r#"
void reset(void) {{ host(4, "ok\n"); host(0x18, STOPPED); for (;;) {{}} }}
__asm__(".section .debug_abbrev,\"\",%progbits\n.Labbrev: .byte 1, 0x11\n.byte 1\n.byte 0x11, 1, 0x12, 6, 0, 0\n"
        ".byte 2, 0x2e\n.byte 1\n.byte 0x3, 8, 0x11, 1, 0x12, 6, 0, 0\n"
        ".byte 3, 0x1d\n.byte 1\n.byte 0x3, 8, 0x11, 1, 0x12, 6, 0, 0\n.byte 0\n"
        ".section .debug_info,\"\",%progbits\n.4byte .Lend - .Lbegin\n.Lbegin: .2byte 4\n.4byte .Labbrev\n.byte 8\n"
        ".byte 1\n.dc.a reset\n.4byte 64\n.byte 2\n.asciz \"reset\"\n.dc.a reset\n.4byte 64\n"
        ".rept {depth}\n.byte 3\n.asciz \"f\"\n.dc.a reset\n.4byte 64\n.endr\n.fill {depth} + 2, 1, 0\n.Lend:\n.text\n");
"#
    )
}

/// Builds an image whose debug information has inlined functions nested to a given depth.
pub(crate) fn deeply_inlined(dir: &Path, depth: usize) -> PathBuf {
    let target = riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).with("-g0");
    target.build_source(dir, &format!("inlined{depth}"), &inlined(depth))
}

/// Changes the stated size of a compressed ELF section.
pub(crate) fn swell(elf: &mut [u8], name: &str, bytes: u64) {
    use object::{Object as _, ObjectSection as _};
    let file = object::File::parse(&*elf).unwrap();
    let (sections, is_64) = (file.sections(), file.is_64());
    // Name of the section in the file: the older kind of compression has another one.
    let section = sections.into_iter().find(|section| section.name() == Ok(name)).unwrap();
    let start = section.file_range().unwrap().0 as usize;
    if name.starts_with(".z") {
        assert_eq!(&elf[start..start + 4], b"ZLIB");
        elf[start + 4..start + 12].copy_from_slice(&bytes.to_be_bytes());
    } else if is_64 {
        elf[start + 8..start + 16].copy_from_slice(&bytes.to_le_bytes());
    } else {
        elf[start + 4..start + 8].copy_from_slice(&(bytes as u32).to_le_bytes());
    }
}

/// Compiles a program for an AVR, with avr-libc's start-up code.
pub fn avr(device: &str, flags: &[&str], source: &Path, elf: &Path) {
    let mut gcc = Command::new("avr-gcc");
    run(gcc.arg(format!("-mmcu={device}")).args(flags).arg("-o").arg(elf).arg(source));
}

/// Runs a tool, which must succeed.
pub(crate) fn run(command: &mut Command) {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; ci/setup --tests installs it"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a folder that is removed with its value.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Builds firmware that makes the host create the file `pwned` in a directory, for both architectures.
pub(crate) fn commanding(dir: &Path) -> [PathBuf; 2] {
    let command = format!("touch {}/pwned", dir.display());
    let source = format!(
        "static const char command[] = {command:?};
         void reset(void) {{
             const void *block[2] = {{ command, (void *)(sizeof command - 1) }};
             host(0x12, block); host(4, \"on\\n\"); host(0x18, STOPPED); for (;;) {{}}
         }}"
    );
    [
        riscv(64, 0x8000_0000, 0x8000_0000, 0x8010_0000).build_source(dir, "riscv", &source),
        cortex_m("-mcpu=cortex-m3", 0, 0x2000_0000, 0x2001_0000).build_source(dir, "arm", &source),
    ]
}
