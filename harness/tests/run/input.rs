// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: bad input gets one clear message and exit code 2, and leaves no half-written file.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::common::{alone, command, ends_with_us, finish, image, run_file};

/// Profiles a file that is refused; returns the message, which contains `needles`.
#[track_caller]
fn refused(firmware: &Path, args: &[&str], needles: &[&str]) -> String {
    let run = run_file(firmware, args).expect_code(2);
    assert_one_message(&run.stdout, &run.stderr, needles);
    assert_eq!(names_in(run.dir.parent().unwrap()), [""; 0], "left behind");
    run.stderr
}

#[track_caller]
fn assert_one_message(stdout: &str, stderr: &str, needles: &[&str]) {
    assert_eq!(stdout, "", "{stderr}");
    assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains(".partial-"), "{stderr}");
    for needle in needles {
        assert!(stderr.contains(needle), "{needle:?} is not in: {stderr}");
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A file with these contents, named in messages as `name`.
fn file(name: &str, bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[track_caller]
fn refused_bytes(bytes: &[u8], needles: &[&str]) -> String {
    let (_dir, path) = file("bad file.elf", bytes);
    refused(&path, &[], &[&["bad file.elf"], needles].concat())
}

fn exit0() -> PathBuf {
    image("riscv64-exit0")
}

/// An ELF header and nothing else: class, byte order, type, machine.
fn header(class: u8, order: u8, kind: u8, machine: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, order, 1]);
    let low = usize::from(order == 2);
    bytes[16 + low] = kind;
    bytes[18 + low] = machine;
    bytes
}

#[test]
fn a_missing_file_is_named() {
    refused(Path::new("no/such.elf"), &[], &["no/such.elf", "no such file", "build"]);
}

#[test]
fn a_directory_is_no_firmware() {
    let dir = tempfile::tempdir().unwrap();
    refused(dir.path(), &[], &[dir.path().to_str().unwrap(), "is a directory"]);
}

#[test]
fn a_device_is_no_firmware() {
    refused(Path::new("/dev/zero"), &[], &["/dev/zero", "not a regular file"]);
}

#[test]
fn an_empty_file_is_no_firmware() {
    refused_bytes(b"", &["empty"]);
}

#[test]
fn a_truncated_elf_is_noticed_wherever_it_is_cut() {
    let whole = fs::read(exit0()).unwrap();
    for len in [1, 4, 15, 30, 63, 64, 100, whole.len() / 2, whole.len() - 1] {
        refused_bytes(&whole[..len], &["truncated"]);
    }
}

#[test]
fn a_program_of_the_host_is_no_firmware() {
    refused(Path::new("/bin/true"), &[], &["/bin/true", "supported"]);
    refused_bytes(&header(2, 1, 2, 62), &["x86-64", "riscv64, riscv32, Arm Cortex-M and AVR are supported"]);
    refused_bytes(&header(1, 1, 2, 3), &["x86 (32-bit)", "supported"]);
    refused_bytes(&header(2, 1, 2, 183), &["AArch64", "supported"]);
}

#[test]
fn big_endian_firmware_is_refused() {
    refused_bytes(&header(1, 2, 2, 40), &["big-endian Arm"]);
    refused_bytes(&header(2, 2, 2, 243), &["big-endian RISC-V"]);
}

#[test]
fn a_relocatable_object_must_be_linked_first() {
    refused_bytes(&header(2, 1, 1, 243), &["relocatable", "link it first"]);
}

#[test]
fn firmware_that_fits_no_machine_gets_the_list_of_those_considered() {
    // Every physical address of the only load segment becomes 0x1000_0000, where virt has no memory.
    let mut elf = fs::read(exit0()).unwrap();
    let (table, count) = (u64_at(&elf, 32) as usize, usize::from(elf[56]));
    for at in (0..count).map(|index| table + index * 56) {
        for field in [16, 24] {
            let moved = u64_at(&elf, at + field) & 0x0fff_ffff | 0x1000_0000;
            elf[at + field..at + field + 8].copy_from_slice(&moved.to_le_bytes());
        }
    }
    refused_bytes(
        &elf,
        &["no riscv64 machine", "0x10000000", "Considered:", "riscv64 virt", "RAM 0x80000000", "--machine"],
    );
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn firmware_for_a_machine_without_its_memory_gets_all_reasons() {
    let (_dir, raw) = file("nowhere.bin", &fs::read(image("cortex-m3-bare.bin")).unwrap());
    let message = refused(
        &raw,
        &["--load-addr", "0x50000000", "--machine", "mps2-an385"],
        &["nowhere.bin", "--machine mps2-an385", "0x50000000"],
    );
    assert!(message.contains("leave --machine out"), "{message}");
}

#[test]
fn corrupt_dwarf_costs_lines_but_no_profile() {
    use object::{Object, ObjectSection};
    let whole = fs::read(exit0()).unwrap();
    let sections: Vec<_> = object::File::parse(&*whole)
        .unwrap()
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug")))
        .filter_map(|section| section.file_range())
        .collect();
    assert!(sections.len() > 3, "riscv64-exit0 has no DWARF");
    let good = run_file(&exit0(), &[]).expect_code(0).profile();
    for damage in [0x00, 0xff, 0x5a] {
        let mut elf = whole.clone();
        for &(start, len) in &sections {
            elf[start as usize..(start + len) as usize].fill(damage);
        }
        let (_dir, path) = file("corrupt.elf", &elf);
        let run = run_file(&path, &[]).expect_code(0);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        let profile = run.profile();
        assert_eq!(profile.insns(), good.insns(), "damage {damage:#x}");
        let names = |profile: &harness::profile::Profile| -> Vec<String> {
            profile.names.functions.iter().map(|function| function.linkage_name.clone()).collect()
        };
        assert_eq!(names(&profile), names(&good), "damage {damage:#x}");
    }
}

#[test]
fn a_raw_binary_needs_an_address() {
    refused(&image("riscv64-bare.bin"), &[], &["riscv64-bare.bin", "--load-addr ADDRESS"]);
}

#[test]
fn a_raw_binary_that_does_not_say_its_processor_needs_a_machine() {
    let (_dir, raw) = alone("riscv64-bare.bin");
    refused(&raw, &["--load-addr", "0x80000000"], &["which processor", "--symbols", "--machine riscv64:virt"]);
}

#[test]
fn option_values_that_make_no_sense_are_named_with_what_is_allowed() {
    for (option, value, next) in [
        ("--period", "0", "at least 1"),
        ("--period", "x", "not a number"),
        ("--period", "0x1000000000000", "below 2^48"),
        ("--bin-bytes", "3", "power of two"),
        ("--bin-bytes", "0", "power of two"),
        ("--bin-bytes", "x", "not a number"),
        ("--bin-bytes", "0x1000000000000000", "must be at most"),
        ("--timeout", "0", "above 0"),
        ("--timeout", "-1", "above 0"),
        ("--timeout", "nan", "above 0"),
        ("--timeout", "inf", "above 0"),
        ("--timeout", "soon", "invalid"),
        ("--shift", "99", "0 to 10"),
        ("--shift", "999", "0 to 10"),
        ("--shift", "x", "not a number"),
        ("--for", "0", "at least 1"),
        ("--for", "1e9", "1.5G"),
        ("--max-insns", "0", "at least 1"),
        ("--load-addr", "here", "not a number"),
        ("--load-addr", "0", "leave --load-addr out"),
        ("--load-bias", "0x1000", "leave --load-bias out"),
        ("--seeded-jitter", "x", "invalid"),
        ("--top", "many", "invalid"),
        ("--machine", "", "mps2-an385"),
        ("--machine", "arm:virt", "riscv64"),
        ("--machine", "mps2-an385", "leave --machine out"),
    ] {
        refused(&exit0(), &[option, value], &[option, next]);
    }
    refused(&exit0(), &["--no-such-option"], &["--no-such-option", "--help"]);
}

#[test]
fn a_function_that_does_not_exist_is_answered_with_the_nearest_names() {
    for option in ["--from", "--until"] {
        refused(&exit0(), &[option, "mian"], &["riscv64-exit0.elf", option, "`mian`", "did you mean `main`"]);
        refused(&exit0(), &[option, "qqqqqqqqqq"], &[option, "`qqqqqqqqqq`", "none has a similar name"]);
    }
}

#[test]
fn a_window_by_function_needs_symbols() {
    for stripped in ["cortex-m3-bare-stripped.elf", "cortex-m3-bare.hex"] {
        let (_dir, stripped) = alone(stripped);
        refused(&stripped, &["--from", "main"], &["--from main", "no symbols", "--symbols"]);
    }
}

#[test]
fn symbols_must_be_those_of_the_image() {
    let bin = image("cortex-m3-bare.bin");
    let symbols = |firmware: &Path, symbols: &Path, needles: &[&str]| {
        let name = symbols.file_name().unwrap().to_str().unwrap();
        refused(firmware, &["--symbols", symbols.to_str().unwrap()], &[&[name], needles].concat());
    };
    symbols(&image("cortex-m3-bare.hex"), &image("riscv64-bare"), &["no code at any address"]);
    symbols(&image("cortex-m3-bare-stripped"), &image("riscv64-bare"), &["is a riscv64 file", "is Cortex-M"]);
    let (_dir, raw) = file("elsewhere.bin", &fs::read(&bin).unwrap());
    let m3 = image("cortex-m3-bare");
    refused(
        &raw,
        &["--load-addr", "0x50000000", "--symbols", m3.to_str().unwrap()],
        &["cortex-m3-bare.elf", "--symbols", "check --load-addr"],
    );
    symbols(&exit0(), &bin, &["not an ELF file"]);
    symbols(&exit0(), Path::new("no/such.elf"), &["no such file"]);
}

#[test]
fn symbols_of_another_build_are_a_warning() {
    let other = image("riscv64-exit3");
    let run = run_file(&exit0(), &["--symbols", other.to_str().unwrap()]).expect_code(0);
    assert!(run.stderr.contains("warning: ") && run.stderr.contains("different builds"), "{}", run.stderr);
}

#[test]
fn a_machine_that_is_not_there_is_refused_by_us_and_an_argument_in_the_words_of_qemu() {
    for (args, words) in [
        (["--machine", "nosuch"], (2, "--machine nosuch: qemu-system-riscv64 has no machine of that name")),
        (["--cpu", "nosuch"], (2, "--cpu nosuch: qemu-system-riscv64 has no processor of that name")),
        (["--qemu-arg", "-nosuch"], (5, "-nosuch: invalid option")),
    ] {
        let (code, words) = words;
        let run = run_file(&exit0(), &args).expect_code(code);
        let who = if code == 5 { "QEMU ended before it ran the firmware" } else { "error: " };
        assert_one_message(&run.stdout, &run.stderr, &[who, words]);
        assert_eq!(names_in(run.dir.parent().unwrap()), [""; 0], "left behind");
    }
}

/// Profiles a good image into `dir/out`, which cannot be written.
#[track_caller]
fn refused_output(dir: &Path, needles: &[&str]) {
    let output = command(&exit0(), &[], dir).output().unwrap();
    let run = finish(tempfile::tempdir().unwrap(), output).expect_code(2);
    let target = dir.join("out").display().to_string();
    assert_one_message(&run.stdout, &run.stderr, &[&[&*target, "--output"], needles].concat());
    assert!(!run.stderr.contains("machine: "), "noticed only after the start: {}", run.stderr);
}

#[test]
fn an_output_directory_that_cannot_be_written_is_noticed_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    refused_output(&dir.path().join("file"), &["cannot be written", "not a directory"]);
    refused_output(&dir.path().join("no/such"), &["no/such", "create it first"]);
    assert_eq!(names_in(dir.path()), ["file"]);
    for place in ["/proc", "/sys"] {
        refused_output(Path::new(place), &["cannot be written"]);
    }
}

#[test]
fn what_is_no_earlier_profile_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::write(&out, "precious").unwrap();
    refused_output(dir.path(), &["would replace a file"]);
    assert_eq!(fs::read(&out).unwrap(), b"precious");

    fs::remove_file(&out).unwrap();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.tex"), "precious").unwrap();
    refused_output(dir.path(), &["something else than an earlier profile (thesis.tex)"]);
    assert_eq!(names_in(&out), ["thesis.tex"]);
    assert_eq!(names_in(dir.path()), ["out"]);

    fs::remove_dir_all(&out).unwrap();
    std::os::unix::fs::symlink("nowhere", &out).unwrap();
    refused_output(dir.path(), &["symbolic link that leads nowhere"]);
    assert!(out.is_symlink());
}

#[test]
fn an_earlier_profile_is_replaced_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let profile = |name: &str, code| {
        let output = command(&image(name), &[], dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        harness::profile::Profile::load(&dir.path().join("out")).unwrap().facts.image_name
    };
    // Into an empty directory, over a profile, and over the remains of one.
    fs::create_dir(dir.path().join("out")).unwrap();
    assert_eq!(profile("riscv64-exit0", 0), "riscv64-exit0.elf");
    fs::remove_file(dir.path().join("out/profile.fwp")).unwrap();
    assert_eq!(profile("riscv64-exit3", 1), "riscv64-exit3.elf");
    assert_eq!(names_in(&dir.path().join("out")), ["console.log", "flamegraph.svg", "profile.fwp"]);
    assert_eq!(names_in(dir.path()), ["out"]);
}

#[test]
fn several_cortex_m_cores_of_an_unknown_machine_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    // No memory layout is known for that machine.
    let args = ["--machine", "mps3-an524"];
    let output = command(&image("cortex-m33-bare"), &args, dir.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("has several Cortex-M CPUs, which are counted on mps2-an521 only"), "{stderr}");
    assert_eq!(names_in(dir.path()), Vec::<String>::new());
}

#[test]
fn a_profile_directory_with_somebodys_notes_in_it_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    assert!(command(&exit0(), &[], dir.path()).output().unwrap().status.success());
    fs::write(dir.path().join("out/notes.md"), "mine").unwrap();
    refused_output(dir.path(), &["something else than an earlier profile (notes.md)"]);
    assert_eq!(fs::read(dir.path().join("out/notes.md")).unwrap(), b"mine");
}

#[test]
fn a_refused_run_keeps_the_earlier_profile() {
    let dir = tempfile::tempdir().unwrap();
    assert!(command(&exit0(), &[], dir.path()).output().unwrap().status.success());
    let before = fs::read(dir.path().join("out/profile.fwp")).unwrap();
    for args in [["--machine", "nosuch"], ["--period", "0"]] {
        assert!(!command(&exit0(), &args, dir.path()).output().unwrap().status.success());
    }
    assert_eq!(fs::read(dir.path().join("out/profile.fwp")).unwrap(), before);
    assert_eq!(names_in(dir.path()), ["out"]);
}

#[test]
fn a_link_to_a_profile_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", dir.path().join("out")).unwrap();
    assert!(command(&exit0(), &[], dir.path()).output().unwrap().status.success());
    assert!(dir.path().join("out").is_symlink());
    assert!(dir.path().join("real/profile.fwp").is_file());
    assert_eq!(names_in(dir.path()), ["out", "real"]);
}

/// Mounts a disk in a namespace of its own, with `options` of tmpfs, as root or not. It holds a copy of an earlier
/// profile. Arguments: mount point, options, that profile, and the command.
const ON_A_DISK: &str = r#"
disk=$1 options=$2 before=$3; shift 3
mount -t tmpfs none "$disk" && cp -r "$before" "$disk/out" && mount -t tmpfs -o "remount,$options" none "$disk" || exit 99
"$@"
code=$?
echo "left: $(ls -A "$disk" | tr '\n' ' ')"
diff -r "$before" "$disk/out" >/dev/null && echo "the earlier profile is as it was"
exit $code
"#;

struct Disk {
    dir: TempDir,
}

impl Disk {
    fn new() -> Disk {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("disk")).unwrap();
        assert!(command(&image("cortex-m3-exit0"), &[], dir.path()).output().unwrap().status.success());
        Disk { dir }
    }

    /// Profiles onto the disk. True: the profile was made; otherwise asserts that the old one is whole. Returns the
    /// messages, too.
    #[track_caller]
    fn profile(&self, options: &str, firmware: &Path, args: &[&str], cause: &str) -> (bool, String) {
        let disk = self.dir.path().join("disk");
        let run = command(firmware, args, &disk);
        let output = ends_with_us("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", ON_A_DISK, "sh"])
            .args([&*disk, Path::new(options), &self.dir.path().join("out")])
            // `args` without the wrapper that ties the process to ours.
            .args(run.get_args().skip(3))
            .output()
            .unwrap();
        let run = finish(tempfile::tempdir().unwrap(), output);
        assert!(run.stdout.contains("left: out \n"), "{options}: {}{}", run.stdout, run.stderr);
        let kept = run.stdout.contains("the earlier profile is as it was");
        if run.code == 0 || run.code == 4 {
            assert!(!kept, "{}", run.stdout);
            assert_eq!(run.stdout.contains("end: the disk became full"), run.code == 4, "{}", run.stdout);
            return (true, run.stdout + &run.stderr);
        }
        let run = run.expect_code(2);
        assert!(kept, "{options}: {}{}", run.stdout, run.stderr);
        let target = disk.join("out").display().to_string();
        let stdout = run.stdout.split("left: ").next().unwrap();
        assert_one_message(stdout, &run.stderr, &[&target, "cannot be written", cause, "--output"]);
        (false, run.stderr)
    }

    #[track_caller]
    fn fills_up(&self, options: &str, firmware: &Path, args: &[&str]) {
        let (done, message) = self.profile(options, firmware, args, "No space left on device");
        assert!(!done, "{options} was enough: {message}");
        assert!(message.contains("free some space"), "{message}");
    }
}

#[test]
fn a_full_disk_is_told_wherever_it_becomes_full() {
    let disk = Disk::new();
    let full = "No space left on device";
    // The disk is full in the run's own files, or as the plugin creates its records.
    for kib in [100, 300, 600, 1000, 1600, 2000] {
        disk.fills_up(&format!("size={kib}k"), &exit0(), &[]);
    }
    // The largest disk that is just too small for the results.
    let (mut too_small, mut enough) = (500, 2000);
    while enough - too_small > 1 {
        let pages = (too_small + enough) / 2;
        let (done, _) = disk.profile(&format!("nr_blocks={pages}"), &exit0(), &[], full);
        *(if done { &mut enough } else { &mut too_small }) = pages;
    }
    let mut messages = String::new();
    for pages in too_small - 10..=too_small + 10 {
        messages += &disk.profile(&format!("nr_blocks={pages}"), &exit0(), &[], full).1;
    }
    // The run's own files are larger than the results, which take their room.
    assert!(messages.contains("end: the disk became full"), "{messages}");
}

#[test]
fn a_disk_that_samples_fill_is_told_and_keeps_the_profile() {
    let disk = Disk::new();
    let args = ["--period", "1", "--for", "50M"];
    let (done, message) = disk.profile("size=4M", &image("riscv64-spin"), &args, "");
    assert!(done && message.contains("end: the disk became full"), "{message}");
}

#[test]
fn a_disk_that_the_console_fills_is_told_and_keeps_the_profile() {
    // Assembler: lui a0, 0x10000; li a1, 'x'; again: sb a1, (a0); j again
    let words = [0x1000_0537_u32, 0x0780_0593, 0x00b5_0023, 0xffdf_f06f];
    let (_dir, print) = file("print.bin", &words.map(u32::to_le_bytes).concat());
    let args = |insns| ["--load-addr", "0x80000000", "--machine", "riscv64:virt", "--for", insns];
    let disk = Disk::new();
    let (done, message) = disk.profile("size=8M", &print, &args("1M"), "");
    assert!(done && !message.contains("the disk became full"), "{message}");
    let (done, message) = disk.profile("size=8M", &print, &args("20M"), "");
    assert!(done && message.contains("end: the disk became full"), "{message}");
}

#[test]
fn a_read_only_disk_is_told() {
    let (done, message) = Disk::new().profile("ro", &exit0(), &[], "Read-only file system");
    assert!(!done && !message.contains("machine: "), "{message}");
}
