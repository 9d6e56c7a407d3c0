// SPDX-License-Identifier: MIT OR Apache-2.0
//! FreeRTOS as found in real images, compared with the compiler's offsets for the same sources, and with the
//! instructions that store to its variables (disassembly). Embassy's tasks by their names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use harness::image::kernel::embassy;
use harness::image::kernel::freertos::{Kernel, Layout, find};
use object::{Object as _, ObjectSymbol as _};
use tempfile::TempDir;
use wire::request::Poll;

use crate::common::{self, all_images, image};

/// Flags for both compilers: no warnings, the kernel's headers, no C library.
const COMMON: &str = "-O2 -ffreestanding -ffunction-sections -fdata-sections -w -Ilib/include -Iports/freertos \
    -Ibuild/FreeRTOS-Kernel/include -Ibuild/FreeRTOS-Kernel";
const RISCV: &str = "-misa-spec=2.2 -march=rv64imac -mabi=lp64 -mcmodel=medany -Iports/riscv-virt \
    -Ibuild/FreeRTOS-Kernel/portable/GCC/RISC-V \
    -Ibuild/FreeRTOS-Kernel/portable/GCC/RISC-V/chip_specific_extensions/RISCV_MTIME_CLINT_no_extensions";
const ARM: &str =
    "-mcpu=cortex-m3 -mthumb -Iports/mps2-an385 -Iports/cortex-m -Ibuild/FreeRTOS-Kernel/portable/GCC/ARM_CM3";

/// Configuration for two cores. The port is for one: it lacks the macros, and declares vTaskSwitchContext
/// accordingly.
const TWO_CORES: &str = "
    #define configNUMBER_OF_CORES 2
    #define configUSE_PASSIVE_IDLE_HOOK 0
    #define configRUN_MULTIPLE_PRIORITIES 1
    #define configUSE_CORE_AFFINITY 1
    #define portGET_CORE_ID() 0
    #define portYIELD_CORE(core) ((void)(core))
    #define portGET_TASK_LOCK(core) ((void)(core))
    #define portRELEASE_TASK_LOCK(core) ((void)(core))
    #define portGET_ISR_LOCK(core) ((void)(core))
    #define portRELEASE_ISR_LOCK(core) ((void)(core))
    #define portENTER_CRITICAL_FROM_ISR() 0
    #define portEXIT_CRITICAL_FROM_ISR(mask) ((void)(mask))
    #define portCRITICAL_NESTING_IN_TCB 1
    #define portSET_INTERRUPT_MASK() 0
    #define portCLEAR_INTERRUPT_MASK(mask) ((void)(mask))
    #define portCHECK_IF_IN_ISR() 0
    #define vTaskSwitchContext of_the_port
    #include \"FreeRTOS.h\"
    #undef vTaskSwitchContext
    #include \"tasks.c\"
";

fn has_command(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}

fn tool(arm: bool, name: &str) -> String {
    let prefix = match arm {
        true => "arm-none-eabi-",
        // Arch's and Homebrew's name, or Debian's.
        false if has_command("riscv64-elf-gcc") => "riscv64-elf-",
        false => "riscv64-unknown-elf-",
    };
    format!("{prefix}{name}")
}

fn output(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; ci/setup --tests installs it"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles each source with its flags and links them, ignoring missing symbols.
fn build(dir: &TempDir, arm: bool, sources: &[(&str, &str)]) -> PathBuf {
    let targets = common::images_dir().join("..");
    let gcc = || {
        let mut gcc = Command::new(tool(arm, "gcc"));
        gcc.current_dir(&targets)
            .args(if arm { ARM } else { RISCV }.split_whitespace())
            .args(COMMON.split_whitespace());
        gcc
    };
    let elf = dir.path().join("kernel.elf");
    let mut link = gcc();
    link.args("-nostdlib -nostartfiles -Wl,--unresolved-symbols=ignore-all -Wl,-Ttext=0x10000 -Wl,-e,0".split(' '));
    for (number, (source, flags)) in sources.iter().enumerate() {
        let [file, object] = ["c", "o"].map(|extension| dir.path().join(format!("{number}.{extension}")));
        fs::write(&file, source).unwrap();
        output(gcc().args(flags.split_whitespace()).arg("-c").arg(&file).arg("-o").arg(&object));
        link.arg(object).args(flags.split_whitespace());
    }
    output(link.arg("-o").arg(&elf));
    elf
}

fn is_arm(elf: &[u8]) -> bool {
    u16::from_le_bytes([elf[18], elf[19]]) == 40
}

/// Kernel of a file without warnings.
fn kernel(elf: &Path) -> Kernel {
    let bytes = fs::read(elf).unwrap();
    let (kernel, warnings) = find(Some(&bytes), 0, is_arm(&bytes));
    assert_eq!(warnings, Vec::<String>::new(), "{}", elf.display());
    kernel.unwrap_or_else(|| panic!("no kernel in {}", elf.display()))
}

/// Symbols by name: address and size. Clones keep their full names.
fn symbols(elf: &Path) -> BTreeMap<String, (u64, u64)> {
    let bytes = fs::read(elf).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    file.symbols().map(|symbol| (symbol.name().unwrap().to_owned(), (symbol.address(), symbol.size()))).collect()
}

/// Offsets of the members according to the compiler, told by the sizes of arrays.
fn offsets(arm: bool, source: &str, flags: &str, has_end: bool) -> Layout {
    let dir = TempDir::new().unwrap();
    let end = if has_end { "char end_at[1 + offsetof(TCB_t, pxEndOfStack)];" } else { "" };
    let probe = format!(
        "#include <stddef.h>\n{source}\nchar name_at[1 + offsetof(TCB_t, pcTaskName)];
         char name_bytes[sizeof(((TCB_t *)0)->pcTaskName)]; char stack_at[1 + offsetof(TCB_t, pxStack)];\n{end}"
    );
    let symbols = symbols(&build(&dir, arm, &[(&probe, flags)]));
    let size = |name: &str| symbols.get(name).map(|&(_, bytes)| bytes);
    let name = size("name_at").unwrap() - 1;
    Layout {
        name: name..name + size("name_bytes").unwrap(),
        stack: size("stack_at").unwrap() - 1,
        stack_end: size("end_at").map(|end| end - 1),
    }
}

/// Names of the images with a kernel and its debug information.
fn with_kernel() -> Vec<String> {
    let has_kernel = |name: &String| ["-freertos", "-tasks", "-crew"].iter().any(|app| name.contains(app));
    let names: Vec<String> = all_images()
        .into_iter()
        .filter(|name| has_kernel(name) && !name.contains("-exidx") && !name.ends_with("-nodwarf"))
        .collect();
    assert!(names.len() >= 35, "{names:?}");
    names
}

/// Instructions that store to a variable of the kernel, with their functions. They are found by following the
/// variable's address through registers and forward branches: not all of them, but no others.
fn stores(elf: &Path, arm: bool, variables: &[u64]) -> Vec<(u64, String)> {
    let text = output(Command::new(tool(arm, "objdump")).args(["-d", "--no-show-raw-insn"]).arg(elf));
    let number = |digits: &str| u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok();
    let lines: Vec<(u64, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(':').and_then(|(pc, rest)| Some((number(pc.trim())?, rest.trim()))))
        .collect();
    let literals: BTreeMap<u64, u64> =
        lines.iter().filter_map(|&(pc, text)| Some((pc, number(text.strip_prefix(".word")?.trim())?))).collect();
    let (mut found, mut function, mut held) = (Vec::new(), String::new(), BTreeMap::<&str, u64>::new());
    let mut at_target: BTreeMap<u64, BTreeMap<&str, u64>> = BTreeMap::new();
    for line in text.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            (function, held) = (name.to_owned(), BTreeMap::new());
            continue;
        }
        let Some((pc, rest)) = line.split_once(':') else { continue };
        let Some(pc) = number(pc.trim()) else { continue };
        let (instruction, comment) = rest.split_once(['#', '@', ';']).map_or((rest, ""), |(left, _)| {
            // Immediate operands of Arm have a # as well.
            let comment = rest.rsplit_once(if arm { "@ " } else { "# " }).map_or("", |(_, comment)| comment);
            if arm { (rest.split('@').next().unwrap(), comment) } else { (left, comment) }
        });
        let mut words = instruction.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        let (Some(operation), operands) = (words.next(), words.collect::<Vec<&str>>()) else { continue };
        held.extend(at_target.remove(&pc).unwrap_or_default());
        if let [.., target, name] = operands[..]
            && name.starts_with('<')
            && !["bl", "blx", "jal"].contains(&operation)
            && let Some(target) = number(target)
        {
            at_target.entry(target).or_default().extend(held.clone());
        }
        if ["j", "ret", "b.n", "b.w", "bx", "pop"].contains(&operation) || operation.starts_with("ldm") {
            held.clear();
            continue;
        }
        let about = number(comment.trim_start_matches('(').split([' ', '<']).next().unwrap());
        let is_store = if arm { operation.starts_with("str") } else { ["sd", "sw"].contains(&operation) };
        if is_store {
            let place = operands.get(1).copied().unwrap_or_default();
            let base = if arm { place.strip_prefix('[') } else { place.strip_prefix("0(") };
            let whole = !arm || place.ends_with(']') || operands.get(2) == Some(&"#0]");
            let base = base.map(|base| base.trim_end_matches([']', ')']));
            let by_register = base.filter(|_| whole).and_then(|base| held.get(base)).copied();
            if by_register.or(about.filter(|_| !arm)).is_some_and(|address| variables.contains(&address)) {
                found.push((pc, function.clone()));
            }
        } else if let Some(&register) = operands.first() {
            let address = if arm && operation.starts_with("ldr") {
                about.and_then(|literal| literals.get(&literal).copied())
            } else {
                about.filter(|_| operation.starts_with("add") && !arm)
            };
            match address {
                Some(address) => held.insert(register, address),
                None => held.remove(register),
            };
        }
    }
    found
}

fn is_switcher(kernel: &Kernel, address: u64) -> bool {
    kernel.switchers.iter().any(|range| range.contains(&address))
}

/// Checks that every store is in code known to store; returns the functions with stores.
fn expect_stores_covered(elf: &Path, kernel: &Kernel) -> BTreeSet<String> {
    let arm = kernel.pointer_bytes == 4;
    let mut variables: Vec<u64> =
        (0..kernel.cores).map(|core| kernel.current + u64::from(core * kernel.pointer_bytes)).collect();
    variables.extend(kernel.running.as_ref().map(|running| running.address));
    let stores = stores(elf, arm, &variables);
    for (pc, function) in &stores {
        assert!(is_switcher(kernel, *pc), "{}: the store at {pc:#x} in {function} is missed", elf.display());
    }
    stores.into_iter().map(|(_, function)| function).collect()
}

#[test]
fn layout_is_the_compilers() {
    let plain = [false, true].map(|arm| offsets(arm, "#include \"tasks.c\"", "", false));
    let ends =
        [false, true].map(|arm| offsets(arm, "#include \"tasks.c\"", "-DconfigRECORD_STACK_HIGH_ADDRESS=1", true));
    assert_ne!(plain[0], plain[1]);
    assert!(ends.iter().all(|layout| layout.stack_end.is_some()));
    for name in with_kernel() {
        let path = image(&name);
        let arm = is_arm(&fs::read(&path).unwrap());
        let keeps_ends = name.ends_with("-ends") || name.contains("-crew") && !name.ends_with("-noends");
        let expected = if keeps_ends { &ends } else { &plain };
        assert_eq!(kernel(&path).layout.as_ref(), Some(&expected[usize::from(arm)]), "{name}");
    }
}

#[test]
fn variables_and_functions_are_the_symbols() {
    for name in with_kernel() {
        let path = image(&name);
        let (kernel, symbols) = (kernel(&path), symbols(&path));
        let arm = is_arm(&fs::read(&path).unwrap());
        let running = kernel.running.unwrap();
        assert_eq!((kernel.current, u64::from(kernel.pointer_bytes)), symbols["pxCurrentTCB"], "{name}");
        assert_eq!((kernel.cores, kernel.pointer_bytes), (1, if arm { 4 } else { 8 }), "{name}");
        assert_eq!((running.address, u64::from(running.bytes)), symbols["xSchedulerRunning"], "{name}");
        // Variables that are never read are optimised away; the idle task is known by its function in any case.
        let handles: Vec<u64> = symbols.get("xIdleTaskHandles").map(|&(address, _)| address).into_iter().collect();
        assert_eq!((&kernel.idle, handles.is_empty()), (&handles, name.ends_with("-lto")), "{name}");
        assert_eq!(kernel.idle_entries, [symbols["prvIdleTask"].0 & !1], "{name}");
        assert_eq!(kernel.delete, symbols.get("vTaskDelete").map(|&(address, _)| address & !1), "{name}");
    }
}

#[test]
fn load_bias_moves_every_address_and_no_offset() {
    let bytes = fs::read(image("riscv64-freertos")).unwrap();
    let (there, here) = (find(Some(&bytes), 0x4000, false).0.unwrap(), find(Some(&bytes), 0, false).0.unwrap());
    let up = |address: u64| address + 0x4000;
    assert_eq!(there.current, up(here.current));
    assert_eq!(there.running.unwrap().address, up(here.running.unwrap().address));
    assert_eq!(there.idle, here.idle.into_iter().map(up).collect::<Vec<u64>>());
    assert_eq!(there.idle_entries, here.idle_entries.into_iter().map(up).collect::<Vec<u64>>());
    assert_eq!(there.delete, here.delete.map(up));
    let moved = here.switchers.into_iter().map(|range| up(range.start)..up(range.end));
    assert_eq!(there.switchers, moved.collect::<Vec<_>>());
    assert_eq!(there.layout, here.layout);
}

#[test]
fn no_instruction_that_changes_the_task_is_missed() {
    for name in with_kernel() {
        let path = image(&name);
        let kernel = kernel(&path);
        let functions = expect_stores_covered(&path, &kernel);
        if name.ends_with("-lto") {
            // All variables are reached from one base address, and functions are inlined into `main`: the arbiter
            // follows neither. A test that runs the image checks that no switch is missed.
            continue;
        }
        for function in ["vTaskSwitchContext", "vTaskStartScheduler"] {
            // The store may be in a part that gcc has split off.
            let has_stores = functions.iter().any(|name| name.split('.').next() == Some(function));
            // LLVM computes the address in ways that the arbiter does not follow.
            let has_stores = has_stores || name.ends_with("-clang");
            assert!(has_stores, "{name}: the arbiter sees no store in {function}: {functions:?}");
        }
        assert!(
            functions
                .iter()
                .any(|name| name.starts_with("prvAddNewTaskToReadyList") || name.starts_with("xTaskCreate")),
            "{name}: {functions:?}"
        );
        assert!(
            kernel.switchers.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "{name}: {:?}",
            kernel.switchers
        );
        // Switchers are few: the rest of the kernel runs undisturbed.
        let symbols = symbols(&path);
        for function in ["xTaskIncrementTick", "vTaskDelete", "xQueueReceive", "main"] {
            if let Some(&(address, _)) = symbols.get(function) {
                assert!(!is_switcher(&kernel, address & !1), "{name}: {function} is taken for a switcher");
            }
        }
    }
}

#[test]
fn every_function_that_stores_is_known_by_name() {
    // Unoptimised and without DWARF; the images' configuration lacks one of the functions.
    let source = "
        #include \"FreeRTOS.h\"
        #undef INCLUDE_vTaskSuspend
        #define INCLUDE_vTaskSuspend 1
        #include \"tasks.c\"
    ";
    for arm in [false, true] {
        let dir = TempDir::new().unwrap();
        let elf = build(&dir, arm, &[(source, "-O0")]);
        let kernel = find(Some(&fs::read(&elf).unwrap()), 0, arm).0.unwrap();
        let functions = expect_stores_covered(&elf, &kernel);
        let expected = [
            "prvAddNewTaskToReadyList",
            "vTaskEndScheduler",
            "vTaskResetState",
            "vTaskStartScheduler",
            "vTaskSuspend",
            "vTaskSwitchContext",
        ];
        assert_eq!(functions, expected.map(str::to_owned).into());
    }
}

#[test]
fn every_core_has_its_task() {
    // In unoptimised code, the functions that choose are not inlined.
    for flags in ["-g", "-g -O0"] {
        let dir = TempDir::new().unwrap();
        let elf = build(&dir, false, &[(TWO_CORES, flags)]);
        let (kernel, symbols) = (kernel(&elf), symbols(&elf));
        assert_eq!(((kernel.current, 16), kernel.cores), (symbols["pxCurrentTCBs"], 2));
        let idle = symbols["xIdleTaskHandles"].0;
        assert_eq!(kernel.idle, [idle, idle + 8]);
        assert_eq!(kernel.layout, Some(offsets(false, TWO_CORES, "", false)));
        let chosen = symbols.iter().filter(|(name, _)| name.contains("SelectHighestPriorityTask"));
        let started = symbols.iter().filter(|(name, _)| name.contains("prvCreateIdleTasks"));
        let others = ["vTaskSwitchContext", "vTaskStartScheduler"].map(|name| &symbols[name]);
        for &(address, _) in chosen.chain(started).map(|(_, place)| place).chain(others) {
            assert!(is_switcher(&kernel, address), "{address:#x}");
        }
    }
}

#[test]
fn every_kind_of_dwarf_says_the_same() {
    let source = "#include \"tasks.c\"";
    for arm in [false, true] {
        let expected = offsets(arm, source, "", false);
        for flags in [
            "-gdwarf-2 -gstrict-dwarf",
            "-gdwarf-3 -gstrict-dwarf",
            "-gdwarf-4",
            "-gdwarf-5",
            "-gdwarf-4 -fdebug-types-section",
            "-gdwarf-5 -fdebug-types-section",
            "-gdwarf64 -gdwarf-5",
            "-g -gz",
        ] {
            let dir = TempDir::new().unwrap();
            let elf = build(&dir, arm, &[(source, flags)]);
            println!("{flags}");
            let kernel = kernel(&elf);
            assert_eq!(kernel.layout.as_ref(), Some(&expected), "{flags}");
        }
    }
}

#[test]
fn code_that_link_time_optimisation_moves_is_found() {
    // A handler in another file, as in every port.
    let port = "void vTaskSwitchContext(void); void handler(void) { vTaskSwitchContext(); }
        void other(void) { } void xTaskCreate(); void vTaskStartScheduler(void);
        int main(void) { xTaskCreate(other, \"one\", 100, (void *)0, 1L, (void *)0); vTaskStartScheduler(); return 0; }";
    let flags = "-g -flto -O3 -fwhole-program -Wl,-e,main -Wl,-u,handler";
    let port = port.replace("void handler", "__attribute__((used)) void handler");
    let dir = TempDir::new().unwrap();
    let elf = build(&dir, false, &[(&port, flags), ("#include \"tasks.c\"", flags)]);
    let kernel = kernel(&elf);
    let functions = expect_stores_covered(&elf, &kernel);
    assert!(functions.contains("handler"), "nothing was inlined: {functions:?}");
    assert_eq!(kernel.layout, Some(offsets(false, "#include \"tasks.c\"", "", false)));
}

/// Source with the kernel's names and a control block of the test.
fn made(block: &str) -> String {
    format!(
        "{block} typedef struct tskTaskControlBlock tskTCB; typedef tskTCB TCB_t; TCB_t *volatile pxCurrentTCB;
         static volatile long xSchedulerRunning; void vTaskSwitchContext(void) {{ pxCurrentTCB = 0; xSchedulerRunning = 1; }}"
    )
}

#[test]
fn control_block_that_another_file_defines_is_found() {
    let defined = "struct tskTaskControlBlock { void *top; long *pxStack; char pcTaskName[7]; };
        struct tskTaskControlBlock the_idle_task; extern void *volatile pxCurrentTCB; void *get(void) { return pxCurrentTCB; }";
    let dir = TempDir::new().unwrap();
    let elf = build(&dir, true, &[(&made("struct tskTaskControlBlock;"), "-g"), (defined, "-g")]);
    assert_eq!(kernel(&elf).layout, Some(Layout { name: 8..15, stack: 4, stack_end: None }));
    // The port's pointer to any type comes first.
    let dir = TempDir::new().unwrap();
    let elf = build(&dir, true, &[(defined, "-g"), (&made("struct tskTaskControlBlock;"), "-g")]);
    assert_eq!(kernel(&elf).layout, Some(Layout { name: 8..15, stack: 4, stack_end: None }));
}

#[test]
fn control_block_that_makes_no_sense_is_not_believed() {
    for (members, reason) in [
        ("long *pxStack; char pcTaskName[257];", "pcTaskName is too long or empty"),
        ("long *pxStack; char *pcTaskName;", "pcTaskName is not an array of characters"),
        ("long *pxStack; short pcTaskName[8];", "pcTaskName is not an array of characters"),
        ("long *pxStack; char pcTaskName[8][2];", "pcTaskName is not an array of characters"),
        ("long pxStack; char pcTaskName[8];", "pxStack is not a pointer"),
        ("long *pxStack; char pcTaskName[8]; short pxEndOfStack;", "pxEndOfStack is not a pointer"),
    ] {
        let dir = TempDir::new().unwrap();
        let source = made(&format!("struct tskTaskControlBlock {{ void *top; {members} }};"));
        let elf = fs::read(build(&dir, true, &[(&source, "-g")])).unwrap();
        let (kernel, warnings) = find(Some(&elf), 0, true);
        assert_eq!(kernel.unwrap().layout, None, "{members}");
        let expected = format!(
            "the debug information of the FreeRTOS kernel's control block makes no sense ({reason}): tasks have no names"
        );
        assert_eq!(warnings, [expected], "{members}");
    }
}

#[test]
fn without_a_kernel_there_is_nothing_to_say() {
    for name in ["cortex-m3-bare", "riscv64-bare", "cortex-m3-bare-stripped"] {
        assert_eq!(
            find(Some(&fs::read(image(name)).unwrap()), 0, is_arm(&fs::read(image(name)).unwrap())),
            (None, vec![])
        );
    }
    for nothing in [None, Some(&b""[..]), Some(b"\x7fELF"), Some(&[0; 64])] {
        assert_eq!(find(nothing, 0, true), (None, vec![]));
    }
}

#[test]
#[ignore = "needs ci/setup --viewers"]
fn embassys_tasks_are_found_by_both_of_rusts_manglings() {
    let images = all_images();
    for name in images.iter().filter(|name| name.contains("-rust-embassy-")) {
        let bytes = fs::read(image(name)).unwrap();
        let names = |polls: &[Poll]| polls.iter().map(|poll| poll.name.clone()).collect::<BTreeSet<String>>();
        let found = embassy::find(Some(&bytes), 0, true);
        let expected = ["consumer_task", "main", "producer_task", "ticker_task"].map(str::to_owned);
        assert_eq!(names(&found), BTreeSet::from(expected), "{name}");
        let moved = embassy::find(Some(&bytes), 0x1000, true);
        assert!(found.iter().zip(&moved).all(|(here, there)| here.entry + 0x1000 == there.entry), "{name}");

        // In the older mangling, the symbols lack the task.
        let dir = TempDir::new().unwrap();
        let (old, bare) = (dir.path().join("old"), dir.path().join("bare"));
        let mut objcopy = Command::new(tool(true, "objcopy"));
        let file = object::File::parse(&bytes[..]).unwrap();
        for (number, symbol) in file.symbols().enumerate() {
            let symbol = symbol.name().unwrap();
            if symbol.contains("TaskStorage") && symbol.contains("4poll") {
                let old = format!("_ZN16embassy_executor3raw20TaskStorage$LT$F$GT$4poll17h{number:016x}E");
                objcopy.arg("--redefine-sym").arg(format!("{symbol}={old}"));
            }
        }
        output(objcopy.arg(image(name)).arg(&old));
        let old = fs::read(old).unwrap();
        assert_eq!(embassy::find(Some(&old), 0, true), found, "{name}");
        output(Command::new(tool(true, "objcopy")).arg("--strip-debug").arg(dir.path().join("old")).arg(&bare));
        let bare = embassy::find(Some(&fs::read(bare).unwrap()), 0, true);
        assert!(bare.len() == found.len() && bare.iter().all(|poll| poll.name.is_empty()), "{name}: {bare:?}");
    }
}

#[test]
fn without_dwarf_tasks_have_addresses() {
    let dir = TempDir::new().unwrap();
    for (name, arm) in [("cortex-m3-freertos", true), ("riscv64-freertos", false)] {
        let bare = dir.path().join(name);
        output(Command::new(tool(arm, "objcopy")).arg("--strip-debug").arg(image(name)).arg(&bare));
        let (found, warnings) = find(Some(&fs::read(&bare).unwrap()), 0, arm);
        let (found, full) = (found.unwrap(), kernel(&image(name)));
        assert_eq!((found.current, &found.idle, found.delete), (full.current, &full.idle, full.delete));
        assert_eq!(found.layout, None);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].ends_with("compile its tasks.c with -g"), "{warnings:?}");
        expect_stores_covered(&bare, &found);

        output(Command::new(tool(arm, "strip")).arg(&bare));
        assert_eq!(find(Some(&fs::read(&bare).unwrap()), 0, arm), (None, vec![]));
    }
}

#[test]
fn damage_costs_no_more_than_a_warning() {
    let deadline = Instant::now() + Duration::from_secs(20);
    // xorshift64: the same damage in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut found, mut lost, mut rounds) = (0, 0, 0);
    for round in 0..400 {
        let arm = round % 2 == 0;
        let mut bytes = fs::read(image(if arm { "cortex-m3-freertos" } else { "riscv64-freertos" })).unwrap();
        match round % 8 {
            0 | 1 => bytes.truncate(random(bytes.len())),
            // Damage in the headers at both ends, or anywhere.
            2 | 3 => (0..4).for_each(|_| bytes[16 + random(48)] = random(256) as u8),
            4 | 5 => {
                let end = bytes.len();
                (0..8).for_each(|_| bytes[end - 1 - random(4096)] ^= 1 << random(8));
            }
            _ => (0..500).for_each(|_| {
                let at = random(bytes.len());
                bytes[at] = random(256) as u8;
            }),
        }
        let (kernel, warnings) = find(Some(&bytes), 0, arm);
        if let Some(kernel) = kernel {
            found += 1;
            lost += usize::from(kernel.layout.is_none());
            assert!(kernel.layout.is_some() || !warnings.is_empty(), "round {round}");
            assert!(warnings.len() <= 1, "round {round}: {warnings:?}");
            assert!(kernel.switchers.iter().all(|range| range.start < range.end), "round {round}");
        }
        rounds = round + 1;
        if Instant::now() > deadline {
            break;
        }
    }
    assert!(rounds > 16, "one look takes over a second");
    assert!(found > 0 && lost > 0, "{found} kernels found in {rounds} damaged files, {lost} without a layout");
}
