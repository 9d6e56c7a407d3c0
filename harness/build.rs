//! Builds the QEMU plugin and hands its bytes to the crate.
//!
//! The plugin is GPL and a cdylib that only QEMU can link, so it is not a dependency: it travels as
//! data, which also makes `cargo install` give a binary that works away from the source tree. Its own
//! target folder avoids waiting for the lock that the outer cargo holds.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let var = |name: &str| PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")));
    let workspace = var("CARGO_MANIFEST_DIR").join("..");
    for source in ["plugin", "Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(source).display());
    }
    let target_dir = var("OUT_DIR").join("plugin");
    let status = Command::new(var("CARGO"))
        .args(["build", "--release", "--locked", "-p", "plugin", "--manifest-path"])
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        // The copy that is carried along is not debugged.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        // Under `cargo clippy` this names clippy, which would check the plugin instead of building it.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "building the plugin failed, see above");
    let library = target_dir.join("release").join("libplugin.so");
    println!("cargo::rustc-env=PLUGIN_LIBRARY={}", library.display());
}
