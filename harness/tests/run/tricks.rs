// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: each use of QEMU beyond its plugin API is gated by QEMU's version. An unknown version is used by its
//! plugin API alone, and that is reported.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::profile::{Profile, Tricks};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Run, command, emulator, finish, harness, image, image_args, program, run};

const PROGRAMS: [&str; 3] = ["qemu-system-arm", "qemu-system-riscv64", "qemu-system-riscv32"];

/// A folder of wrappers that report a version and start the installed emulators.
fn versioned(version: &str, environment: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in PROGRAMS {
        let script = format!(
            "if [ \"$1\" = --version ]; then echo 'QEMU emulator version {version}'; exit; fi\n\
             {} exec {} \"$@\"",
            environment.replace("FOLDER", &folder.path().display().to_string()),
            emulator(name).display()
        );
        program(&folder.path().join(name), &script);
    }
    folder
}

#[track_caller]
fn run_in(folder: &Path, name: &str, args: &[&str]) -> Run {
    let temp = tempfile::tempdir().unwrap();
    let output = command(&image(name), args, temp.path()).env("PATH", folder).output().unwrap();
    finish(temp, output)
}

/// The profile without the record of how QEMU was used.
fn all_but_tricks(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    profile.facts.tricks = Tricks::Used;
    profile
}

const WARNING: &str = "this harness does not know the internals of QEMU";

/// Library that makes QEMU report plugin API 8, which is not known yet, and load plugins as API 7 does.
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
const CLAIMS_API_8: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void (*by_data)(void *, void *);
static int (*install)(uint64_t, void *, int, char **);
static void (*real_trans)(uint64_t, void (*)(uint64_t, void *));
static void (*real_init)(uint64_t, void (*)(uint64_t, unsigned));
static void (*real_exit)(uint64_t, void (*)(uint64_t, void *), void *);
static by_data on_trans, on_exit_of_qemu;
static void (*on_init)(unsigned, void *);

static void trans(uint64_t id, void *block) { on_trans(block, 0); }
static void init(uint64_t id, unsigned vcpu) { on_init(vcpu, 0); }
static void ends(uint64_t id, void *data) { on_exit_of_qemu(0, 0); }
static void register_trans(uint64_t id, by_data call, void *data) { on_trans = call; real_trans(id, trans); }
static void register_init(uint64_t id, void (*call)(unsigned, void *), void *data) { on_init = call; real_init(id, init); }
static void register_exit(uint64_t id, by_data call, void *data) { on_exit_of_qemu = call; real_exit(id, ends, 0); }

static void redirect(struct link_map *map, const char *name, void *to) {
    const Elf64_Sym *symbols = 0; const char *names = 0; Elf64_Rela *tables[2] = {0}; size_t sizes[2] = {0};
    for (Elf64_Dyn *entry = map->l_ld; entry->d_tag; entry++) {
        if (entry->d_tag == DT_SYMTAB) symbols = (void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB) names = (void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_RELA) tables[0] = (void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_JMPREL) tables[1] = (void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_RELASZ) sizes[0] = entry->d_un.d_val;
        if (entry->d_tag == DT_PLTRELSZ) sizes[1] = entry->d_un.d_val;
    }
    for (int table = 0; table < 2; table++)
        for (size_t at = 0; tables[table] && at < sizes[table] / sizeof(Elf64_Rela); at++) {
            Elf64_Rela *relocation = tables[table] + at;
            if (strcmp(names + symbols[ELF64_R_SYM(relocation->r_info)].st_name, name) != 0) continue;
            uintptr_t slot = map->l_addr + relocation->r_offset, page = slot & ~(uintptr_t)(getpagesize() - 1);
            mprotect((void *)page, getpagesize(), PROT_READ | PROT_WRITE);
            *(void **)slot = to;
        }
}

static int claims(uint64_t id, void *info, int count, char **words) {
    int *version = (int *)((char *)info + sizeof(char *));
    if (version[1] < 7) {
        Dl_info found; struct link_map *map;
        dladdr1((void *)install, &found, (void **)&map, RTLD_DL_LINKMAP);
        real_trans = dlsym(RTLD_DEFAULT, "qemu_plugin_register_vcpu_tb_trans_cb");
        real_init = dlsym(RTLD_DEFAULT, "qemu_plugin_register_vcpu_init_cb");
        real_exit = dlsym(RTLD_DEFAULT, "qemu_plugin_register_atexit_cb");
        redirect(map, "qemu_plugin_register_vcpu_tb_trans_cb", register_trans);
        redirect(map, "qemu_plugin_register_vcpu_init_cb", register_init);
        redirect(map, "qemu_plugin_register_atexit_cb", register_exit);
    }
    version[1] = 8;
    return install(id, info, count, words);
}

int g_module_symbol(void *module, const char *name, void **symbol) {
    int (*real)(void *, const char *, void **) = dlsym(RTLD_NEXT, "g_module_symbol");
    int found = real(module, name, symbol);
    if (found && strcmp(name, "qemu_plugin_install") == 0) { install = *symbol; *symbol = claims; }
    return found;
}
"#;

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
fn a_qemu_of_an_unknown_plugin_api_and_version_is_used_by_its_plugin_api_alone() {
    let folder = versioned("99.1.0", "LD_PRELOAD=FOLDER/claims.so");
    let (source, library) = (folder.path().join("claims.c"), folder.path().join("claims.so"));
    fs::write(&source, CLAIMS_API_8).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).status();
    assert!(built.expect("cc is missing: run ci/setup --tests").success());
    for name in ["cortex-m3-freertos", "riscv64-freertos"] {
        let args = ["--for", "4M", "--exact"];
        let known = run(name, &args).expect_code(0);
        assert!(!known.stderr.contains(WARNING), "{}", known.stderr);
        assert_eq!(known.profile().facts.tricks, Tricks::Used, "{name}");
        let unknown = run_in(folder.path(), name, &args).expect_code(0);
        assert!(unknown.stderr.contains(&format!("warning: {WARNING} 99.1.0")), "{}", unknown.stderr);
        let profile = unknown.profile();
        assert_eq!(profile.facts.tricks, Tricks::UnknownVersion, "{name}");
        // The plugin API does not tell the time that the machine sleeps.
        let mut expected = known.profile();
        assert!(profile.facts.slept_ns.is_none() && expected.facts.slept_ns.take().is_some(), "{name}");
        expected.tasks.iter_mut().for_each(|task| task.slept_ns = 0);
        assert!(all_but_tricks(&profile) == expected, "{name}: the plugin API alone counts otherwise");
    }
    // Features that need more than the plugin API are refused or reported, never wrong in silence.
    let amp = run_in(folder.path(), "cortex-m33-an521-amp", &["--for", "1M"]).expect_code(5);
    assert!(amp.stderr.contains("does not show which of several CPUs executes"), "{}", amp.stderr);
    let clock = run_in(folder.path(), "cortex-m3-clock", &["-v"]).expect_code(0);
    assert!(clock.stdout.contains("depends on the host"), "{}", clock.stdout);
    assert!(
        clock.stdout.contains("was used by its plugin API alone: this version of harness does not know"),
        "{}",
        clock.stdout
    );
}

#[test]
fn doctor_says_what_an_unknown_version_lacks() {
    let folder = versioned("11.2.0", "");
    let doctor = |args: &[&str]| {
        let output = harness().arg("doctor").args(args).env("PATH", folder.path()).output().unwrap();
        finish(tempfile::tempdir().unwrap(), output).expect_code(0).stdout
    };
    let lines = doctor(&[]);
    assert!(lines.contains("warning: QEMU 11.2.0 is used by its plugin API alone"), "{lines}");
    assert!(wire::trick::TABLE.iter().all(|trick| lines.contains(trick.without_it)), "{lines}");
    let found: Value = serde_json::from_str(&doctor(&["--json"])).unwrap();
    let lacks = found["emulators"][0]["lacks"].as_array().unwrap();
    assert_eq!(lacks.len(), wire::trick::TABLE.len(), "{found}");
    // A known version lacks nothing.
    let output = harness().args(["doctor", "--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["emulators"][0]["lacks"], Value::Array(Vec::new()), "{found}");
}

#[test]
fn a_user_can_have_qemu_used_by_its_plugin_api_alone() {
    let temp = tempfile::tempdir().unwrap();
    let output =
        command(&image("cortex-m3-clock"), &["-v"], temp.path()).env("HARNESS_NO_TRICKS", "1").output().unwrap();
    let run = finish(temp, output).expect_code(0);
    assert_eq!(run.profile().facts.tricks, Tricks::Off);
    assert!(!run.stderr.contains(WARNING), "{}", run.stderr);
    assert!(run.stdout.contains("was used by its plugin API alone: HARNESS_NO_TRICKS is set"), "{}", run.stdout);
    assert!(run.stdout.contains("depends on the host"), "{}", run.stdout);
}

#[test]
fn alike_cpus_get_translations_of_their_own_or_the_run_says_that_they_share_them() {
    const SHARED: &str = "the CPUs share translated code";
    let options = image_args("riscv64-smp");
    let [apart, shared] = [false, true].map(|are_off| {
        let temp = tempfile::tempdir().unwrap();
        let mut command = command(&image("riscv64-smp"), options, temp.path());
        if are_off {
            command.env("HARNESS_NO_TRICKS", "1");
        }
        let output = command.output().unwrap();
        finish(temp, output).expect_code(0)
    });
    assert!(!apart.stderr.contains(SHARED), "{}", apart.stderr);
    assert!(shared.stderr.contains(SHARED), "{}", shared.stderr);
    let [mut apart, shared] = [apart.profile(), shared.profile()];
    assert!(apart.samples.iter().any(|sample| sample.vcpu == 1), "both CPUs executed");
    apart.facts.tricks = shared.facts.tricks;
    assert_eq!(apart, shared);
}

#[test]
fn a_qemu_that_is_another_than_it_said_executes_nothing() {
    // The version that is installed is neither of these.
    let refused = ["9.2.47", "11.1.47"].map(|version| {
        let folder = versioned(version, "");
        run_in(folder.path(), "cortex-m3-exit0", &[]).expect_code(5)
    });
    for run in refused {
        assert!(
            run.stderr.contains("to --version but is QEMU") && run.stderr.contains("Run again"),
            "{}",
            run.stderr
        );
        assert!(!run.has_profile());
    }
}
