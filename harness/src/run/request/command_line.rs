// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's command line.

use std::ffi::OsString;

use crate::image::Arch;
use crate::machine::{Choice, LoadOption};
use crate::run::contain::semihosting::Semihosting;
use crate::run::qemu::monitor;
use crate::run::qemu::versions;

/// Path of the image in QEMU's arguments, from the scratch directory.
const IMAGE: &str = "../firmware.elf";

/// QEMU's arguments: everything that the guest's behaviour depends on. `firmware` are the guest's own arguments,
/// `user` further arguments of QEMU. `plugin_api` is the API that the plugin asks for; None: QEMU runs without the
/// plugin, for comparison. `has_input`: input is typed on the console.
pub fn arguments(
    choice: &Choice,
    shift: u8,
    firmware: &[String],
    user: &[String],
    plugin_api: Option<i32>,
    has_input: bool,
    semihosting: Semihosting,
) -> Vec<OsString> {
    // Out of the guest's reach: its semihosting can only write to QEMU's standard descriptors.
    let monitor = format!("socket,id=monitor,fd={}", monitor::DESCRIPTOR);
    let mut arguments = machine(choice, shift, IMAGE);
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    if has_input {
        add(&["-chardev", "file,id=debugger,path=../console.log,append=on,input-path=../console.readc"]);
    }
    add(&[
        // UART and semihosting write to one regular file, since a reader of a pipe could slow them down. All writers
        // append, also the firmware's `:tt`, which is not a chardev. UART and semihosting each have a pipe for input.
        "-chardev",
        if has_input {
            "file,id=console,path=../console.log,append=on,input-path=../console.in,mux=on"
        } else {
            "file,id=console,path=../console.log,append=on,mux=on"
        },
        "-serial",
        // The plugin provides a chip's serial ports, but for one that only adds to the machine.
        if has_parts_of_the_plugin(choice) { "null" } else { "chardev:console" },
        "-chardev",
        &monitor,
    ]);
    // QEMU refuses the option where it has no semihosting.
    if choice.machine.arch != Arch::Avr {
        let console = if has_input { "debugger" } else { "console" };
        add(&["-semihosting-config", &semihosting_config(semihosting, console, firmware)]);
    }
    // Newer versions warn of the option, and older ones do not know the object.
    add(if plugin_api >= Some(versions::MONITOR_IS_AN_OBJECT) {
        &["-object", "monitor-qmp,id=qmp,chardev=monitor"]
    } else {
        &["-mon", "chardev=monitor,mode=control"]
    });
    if plugin_api.is_some() {
        // Held until the plugin knows the machine's memory, see `Start`. QEMU repeats its fatal messages in its log,
        // which would be standard error: the plugin gives that descriptor to the firmware.
        add(&["-plugin", "../plugin.so,dir=../records", "-S", "-D", "/dev/null"]);
    }
    arguments.extend(user.iter().cloned());
    arguments.into_iter().map(OsString::from).collect()
}

/// QEMU's arguments for the same run without harness: `image` is the firmware's path, and the console is QEMU's own
/// terminal. None: the plugin provides parts of the machine.
pub fn alone(
    choice: &Choice,
    shift: u8,
    image: &str,
    firmware: &[String],
    user: &[String],
    semihosting: Semihosting,
) -> Option<Vec<String>> {
    if has_parts_of_the_plugin(choice) {
        return None;
    }
    let mut arguments = machine(choice, shift, image);
    arguments.extend(["-chardev", "stdio,id=console,mux=on", "-serial", "chardev:console"].map(str::to_owned));
    if choice.machine.arch != Arch::Avr {
        arguments.extend(["-semihosting-config".to_owned(), semihosting_config(semihosting, "console", firmware)]);
    }
    arguments.extend(user.iter().cloned());
    Some(arguments)
}

/// Whether the plugin completes the machine to a chip.
fn has_parts_of_the_plugin(choice: &Choice) -> bool {
    choice.machine.chip.is_some() || choice.machine.added.is_some()
}

/// Arguments for the machine, its firmware and its time.
fn machine(choice: &Choice, shift: u8, image: &str) -> Vec<String> {
    let mut arguments = vec!["-M".to_owned(), choice.machine.name.to_string()];
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|&word| word.to_owned()));
    if let Some(cpu) = &choice.cpu {
        add(&["-cpu", cpu]);
    }
    match choice.machine.load {
        LoadOption::Bios => add(&["-bios", image]),
        LoadOption::Kernel => add(&["-kernel", image]),
        // QEMU reads a doubled comma as one.
        LoadOption::Loader => {
            add(&["-m", "0", "-device", &format!("loader,file={},cpu-num=0", image.replace(',', ",,"))]);
        }
    }
    if let Some(address) = choice.vectors {
        add(&["-global", &format!("armv7m.init-nsvtor={address:#x}")]);
    }
    add(&[
        "-icount",
        &format!("shift={shift},align=off,sleep=off"),
        // Otherwise virt's clock starts at the host's date, and its device tree holds a random seed.
        "-rtc",
        "clock=vm,base=2000-01-01T00:00:00",
        "-seed",
        "1",
        "-no-reboot",
        "-display",
        "none",
        "-nic",
        "none",
        "-monitor",
        "none",
    ]);
    arguments
}

/// Settings of semihosting: which calls are served, where the console is, and the firmware's command line. The
/// program's name is a constant, so that nothing depends on the name of the file.
fn semihosting_config(semihosting: Semihosting, console: &str, firmware: &[String]) -> String {
    let enable = if semihosting == Semihosting::Off { "off" } else { "on" };
    let mut config = format!("enable={enable},target=native,chardev={console},arg=firmware");
    for argument in firmware {
        config += ",arg=";
        // QEMU reads a doubled comma as one.
        config += &argument.replace(',', ",,");
    }
    config
}
