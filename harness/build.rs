// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the QEMU plugin and hands its bytes to the crate.
//!
//! The plugin is GPL and a cdylib that only QEMU can link, so it is not a dependency: it travels as
//! data, which also makes `cargo install` give a binary that works away from the source tree. Its own
//! target folder avoids waiting for the lock that the outer cargo holds.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let var = |name: &str| PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")));
    let workspace = var("CARGO_MANIFEST_DIR").join("..");
    for source in ["plugin", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(source).display());
    }
    println!("cargo::rustc-env=HARNESS_COMMIT={}", commit(&workspace));
    chips(&var("CARGO_MANIFEST_DIR").join("chips"), &var("OUT_DIR"));
    let target_dir = var("OUT_DIR").join("plugin");
    let mut build = Command::new(var("CARGO"));
    build
        .args(["build", "--release", "--locked", "-p", "plugin", "--manifest-path"])
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        // The embedded copy is never debugged.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        // Its callbacks are short and spread over many modules: as one unit they take a tenth less time.
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        // Under `cargo clippy` this names clippy, which would check the plugin instead of building it.
        .env_remove("RUSTC_WORKSPACE_WRAPPER");
    let mut library = target_dir;
    let [host, target] = ["HOST", "TARGET"].map(|name| env::var(name).expect("cargo sets it"));
    // The plugin runs where harness does.
    if target != host {
        build.args(["--target", &target]);
        library.push(&target);
    }
    let status = build.status().expect("cargo can be run");
    assert!(status.success(), "building the plugin failed, see above");
    let library = library.join("release").join("libplugin.so");
    println!("cargo::rustc-env=PLUGIN_LIBRARY={}", library.display());
}

/// Writes the lists of chips, kinds and cores that the program contains. A new one needs only a file, no code.
fn chips(folder: &Path, out: &Path) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let cores = folder.with_file_name("cores");
    println!("cargo::rerun-if-changed={}", cores.display());
    let list = |folder: &Path, is_path: bool| {
        let mut rows = Vec::new();
        for entry in std::fs::read_dir(folder).expect("chips lie beside the sources") {
            let path = entry.expect("a folder can be read").path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
                let name = if is_path { format!("kinds/{stem}.toml") } else { stem };
                rows.push(format!("({name:?}, include_str!({:?}))", path.display().to_string()));
            }
        }
        rows.sort();
        format!("&[{}]", rows.join(", "))
    };
    let text = format!(
        "/// The chips that are carried along, by name.\npub(crate) const CHIPS: &[(&str, &str)] = {};\n\
         /// Files of kinds, by path.\npub(crate) const KINDS: &[(&str, &str)] = {};\n\
         /// The cores that are carried along, by name.\npub(crate) const CORES: &[(&str, &str)] = {};\n",
        list(folder, false),
        list(&folder.join("kinds"), true),
        list(&cores, false)
    );
    std::fs::write(out.join("chips.rs"), text).expect("OUT_DIR can be written");
}

/// The commit that a release build is of, which `--version` says; a debug build does not change with each commit.
fn commit(workspace: &Path) -> String {
    if env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return "unknown (a debug build)".to_owned();
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(workspace).args(args).output().ok()?;
        let text = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
        Some(text.trim().to_owned())
    };
    let Some(commit) = git(&["describe", "--always", "--abbrev=12", "--exclude=*"]) else {
        return "unknown (built outside git)".to_owned();
    };
    // A package's source may lie inside another repository.
    if git(&["ls-files", "--error-unmatch", "harness/build.rs"]).is_none() {
        return "unknown (built outside git)".to_owned();
    }
    // This log changes with every commit and every switch to another; the sources cover uncommitted changes.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=src");
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", "harness", "plugin", "Cargo.lock"]);
    let changed = changed.is_none_or(|files| !files.is_empty());
    if changed { format!("{commit}, with changes") } else { commit }
}
