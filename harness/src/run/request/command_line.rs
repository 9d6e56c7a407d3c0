// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's command line.

use std::ffi::OsString;

use crate::image::Arch;
use crate::machine::{Choice, LoadOption};
use crate::run::contain::semihosting::Semihosting;
use crate::run::qemu::monitor;
use crate::run::qemu::versions;

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
    let machine = match choice.machine.load {
        LoadOption::Bios => vec!["-bios", "../firmware.elf"],
        LoadOption::Kernel => vec!["-kernel", "../firmware.elf"],
        LoadOption::Loader => vec!["-m", "0", "-device", "loader,file=../firmware.elf,cpu-num=0"],
    };
    let vectors = choice.vectors.map(|address| format!("armv7m.init-nsvtor={address:#x}"));
    let icount = format!("shift={shift},align=off,sleep=off");
    // The program's name is a constant, so that nothing depends on the name of the file. QEMU reads a doubled comma as
    // one.
    let enable = if semihosting == Semihosting::Off { "off" } else { "on" };
    let semihostings = if has_input { "debugger" } else { "console" };
    let mut semihosting = format!("enable={enable},target=native,chardev={semihostings},arg=firmware");
    for argument in firmware {
        semihosting += ",arg=";
        semihosting += &argument.replace(',', ",,");
    }
    // Out of the guest's reach: its semihosting can only write to QEMU's standard descriptors.
    let monitor = format!("socket,id=monitor,fd={}", monitor::DESCRIPTOR);
    let mut arguments: Vec<&str> = vec!["-M", &choice.machine.name];
    if let Some(cpu) = &choice.cpu {
        arguments.extend(["-cpu", cpu]);
    }
    arguments.extend(machine);
    if let Some(vectors) = &vectors {
        arguments.extend(["-global", vectors]);
    }
    if has_input {
        arguments.extend(["-chardev", "file,id=debugger,path=../console.log,append=on,input-path=../console.readc"]);
    }
    arguments.extend([
        "-icount",
        &icount,
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
        if choice.machine.chip.is_some() || choice.machine.added.is_some() { "null" } else { "chardev:console" },
        "-chardev",
        &monitor,
    ]);
    // QEMU refuses the option where it has no semihosting.
    if choice.machine.arch != Arch::Avr {
        arguments.extend(["-semihosting-config", &semihosting]);
    }
    // Newer versions warn of the option, and older ones do not know the object.
    arguments.extend(if plugin_api >= Some(versions::MONITOR_IS_AN_OBJECT) {
        ["-object", "monitor-qmp,id=qmp,chardev=monitor"]
    } else {
        ["-mon", "chardev=monitor,mode=control"]
    });
    if plugin_api.is_some() {
        // Held until the plugin knows the machine's memory, see `Start`. QEMU repeats its fatal messages in its log,
        // which would be standard error: the plugin gives that descriptor to the firmware.
        arguments.extend(["-plugin", "../plugin.so,dir=../records", "-S", "-D", "/dev/null"]);
    }
    arguments.extend(user.iter().map(String::as_str));
    arguments.into_iter().map(OsString::from).collect()
}
