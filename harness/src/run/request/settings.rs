// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of QEMU that are accepted from a file of unknown origin: a saved profile, an untrusted suite.
//!
//! QEMU's command line can load programs, write files and open sockets. A [`Setting`] can do none of that: each kind
//! is listed here with its accepted values, and no value contains a path, a name of an object or a further property.
//! Only [`read`] makes settings.

use std::fmt;

use crate::error::InputError;
use crate::machine::MACHINES;

/// Most CPUs.
const MAX_CPUS: u64 = 64;

/// Most memory of a machine, in MiB. QEMU's own limit of addresses also applies.
const MAX_MEMORY_MIB: u64 = 2048;

/// Most characters of a name or a word.
const MAX_WORD_CHARS: usize = 48;

/// Devices and properties that `-global` may set, all of them numbers or switches.
const GLOBALS: [(&str, &[&str]); 1] = [(
    "armv7m",
    &[
        "init-nsvtor",
        "init-svtor",
        "num-irq",
        "num-prio-bits",
        "mpu-ns-regions",
        "mpu-s-regions",
        "vfp",
        "dsp",
        "enable-bitband",
    ],
)];

/// Properties that may follow a machine's name, and their accepted words besides numbers and switches.
const MACHINE_PROPERTIES: [(&str, &[&str]); 4] =
    [("aclint", &[]), ("aia", &["none", "aplic", "aplic-imsic"]), ("aia-guests", &[]), ("acpi", &["auto"])];

/// Text for messages: options that make a setting, with their values.
pub const ACCEPTED: &str = "-smp N, -m SIZE (at most 2G), -cpu NAME with switches and numbers, and -global armv7m.PROPERTY \
                            with a number or switch";

/// One setting of QEMU, harmless from any source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    option: &'static str,
    value: String,
}

impl Setting {
    /// Setting for an option with its value; None: the option or value is not accepted.
    fn new(option: &str, value: &str) -> Option<Setting> {
        let (option, is_taken) = match option {
            "-smp" => ("-smp", is_cpus(value)),
            "-m" => ("-m", is_memory(value)),
            "-cpu" => ("-cpu", is_cpu(value)),
            "-global" => ("-global", is_global(value)),
            _ => return None,
        };
        is_taken.then(|| Setting { option, value: value.to_owned() })
    }

    /// The two words on QEMU's command line.
    pub fn words(&self) -> [String; 2] {
        [self.option.to_owned(), self.value.clone()]
    }
}

/// An option of QEMU that is not a setting, with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other(Vec<String>);

impl Other {
    /// The option's words on QEMU's command line.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

/// Splits QEMU's arguments into settings and others, each in their order.
pub fn read(arguments: &[String]) -> (Vec<Setting>, Vec<Other>) {
    let (mut settings, mut others) = (Vec::new(), Vec::new());
    for words in options(arguments) {
        let setting = match words {
            [option, value] => Setting::new(option, value),
            _ => None,
        };
        match setting {
            Some(setting) => settings.push(setting),
            None => others.push(Other(words.to_vec())),
        }
    }
    (settings, others)
}

/// Arguments by option: each begins with a `-`, and its values do not.
fn options(arguments: &[String]) -> impl Iterator<Item = &[String]> {
    let mut rest = arguments;
    std::iter::from_fn(move || {
        let values = rest.get(1..)?.iter().take_while(|word| !word.starts_with('-')).count();
        let (option, next) = rest.split_at(1 + values);
        rest = next;
        Some(option)
    })
}

/// Checks that a file may name this machine: one of the table, with properties that are listed here.
///
/// # Errors
/// When a file may not name it.
pub fn check_machine(name: &str) -> Result<(), InputError> {
    let (base, properties) = parts(name);
    if !MACHINES.iter().any(|machine| machine.name == base) {
        return Err(InputError::new(format!("the machine {name:?} is none that `harness list machines` shows")));
    }
    let is_known = |property: &str| {
        let Some((key, value)) = property.split_once('=') else { return false };
        let known = MACHINE_PROPERTIES.iter().find(|(known, _)| *known == key);
        known.is_some_and(|(_, words)| words.contains(&value) || is_plain_value(value))
    };
    match properties.iter().find(|property| !is_known(property)) {
        None => Ok(()),
        Some(property) => Err(InputError::new(format!(
            "the machine {name:?} has the property {property:?}, which may reach the host"
        ))),
    }
}

/// Checks that a file may name this processor: a model with switches and numbers.
///
/// # Errors
/// When the text contains anything else.
pub fn check_cpu(name: &str) -> Result<(), InputError> {
    match is_cpu(name) {
        true => Ok(()),
        false => Err(InputError::new(format!(
            "the CPU {name:?} is not a model's name, with properties that are switches or numbers"
        ))),
    }
}

/// A name and the properties that follow it.
fn parts(text: &str) -> (&str, Vec<&str>) {
    let mut parts = text.split(',');
    (parts.next().unwrap_or_default(), parts.collect())
}

/// Whether a text is a plain name or word, without separators, escapes or paths.
fn is_word(text: &str) -> bool {
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.len() <= MAX_WORD_CHARS
        && text.bytes().all(is_of_word)
        && !text.contains("..")
}

/// Reads a whole number, in decimal or as `0x…`.
fn number(text: &str) -> Option<u64> {
    let is_of = |digits: &str, radix| !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    match text.strip_prefix("0x") {
        Some(digits) if is_of(digits, 16) => u64::from_str_radix(digits, 16).ok(),
        None if is_of(text, 10) => text.parse().ok(),
        _ => None,
    }
}

/// Whether a property's value is a switch, a number, or the version of a specification (`v1.12.0`).
fn is_plain_value(value: &str) -> bool {
    let is_version = |version: &str| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    matches!(value, "on" | "off" | "true" | "false")
        || number(value).is_some()
        || value.strip_prefix('v').is_some_and(|version| is_word(version) && is_version(version))
}

fn is_cpus(value: &str) -> bool {
    number(value.strip_prefix("cpus=").unwrap_or(value)).is_some_and(|cpus| (1..=MAX_CPUS).contains(&cpus))
}

fn is_memory(value: &str) -> bool {
    let size = value.strip_prefix("size=").unwrap_or(value);
    let (digits, unit_mib) = match size.strip_suffix(['G', 'g']) {
        Some(digits) => (digits, 1024),
        None => (size.strip_suffix(['M', 'm']).unwrap_or(size), 1),
    };
    let mib = number(digits).and_then(|digits| digits.checked_mul(unit_mib));
    mib.is_some_and(|mib| (1..=MAX_MEMORY_MIB).contains(&mib))
}

fn is_cpu(value: &str) -> bool {
    let (model, properties) = parts(value);
    let is_property =
        |property: &&str| property.split_once('=').is_some_and(|(key, value)| is_word(key) && is_plain_value(value));
    is_word(model) && properties.iter().all(is_property)
}

fn is_global(value: &str) -> bool {
    let Some((name, value)) = value.split_once('=') else { return false };
    let is_listed =
        |(device, properties): &(&str, &[&str])| properties.iter().any(|one| name == format!("{device}.{one}"));
    GLOBALS.iter().any(is_listed) && is_plain_value(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let (settings, others) = read(&arguments);
        let kept: usize = others.iter().map(|other| other.words().len()).sum();
        assert_eq!(settings.len() * 2 + kept, arguments.len(), "nothing is lost");
        others.iter().map(Other::to_string).collect()
    }

    #[test]
    fn what_people_set_is_a_setting() {
        for accepted in [
            ["-smp", "2"],
            ["-smp", "cpus=4"],
            ["-m", "256"],
            ["-m", "size=64M"],
            ["-m", "2G"],
            ["-cpu", "rv64,zba=true,vlen=256,priv_spec=v1.12.0"],
            ["-cpu", "cortex-m33"],
            ["-global", "armv7m.init-nsvtor=0x8000000"],
            ["-global", "armv7m.vfp=off"],
        ] {
            assert_eq!(others(&accepted), [""; 0], "{accepted:?}");
            let (settings, _) = read(&accepted.map(str::to_owned));
            assert_eq!(settings.iter().flat_map(Setting::words).collect::<Vec<_>>(), accepted);
        }
        assert_eq!(others(&["-smp", "2", "-m", "64M"]), [""; 0]);
        for machine in ["virt", "virt,aclint=on", "virt,aia=aplic-imsic,aia-guests=3", "mps2-an385"] {
            assert_eq!(check_machine(machine), Ok(()), "{machine}");
        }
    }

    #[test]
    fn what_could_reach_the_host_is_none() {
        for refused in [
            ["-smp", "2,file=/etc/passwd"],
            ["-smp", "0"],
            ["-smp", "100000"],
            ["-m", "64M,maxmem=1T"],
            ["-m", "1T"],
            ["-m", "3G"],
            ["-m", "18446744073709551615G"],
            ["-cpu", "cortex-m3,x=/etc/passwd"],
            ["-cpu", "cortex-m3,memory=system"],
            ["-cpu", "../x"],
            ["-cpu", "/x"],
            ["-cpu", "a,,b=on"],
            ["-global", "armv7m.init-nsvtor=/etc/passwd"],
            ["-global", "armv7m.cpu-type=x"],
            ["-global", "armv7m.vfp=on,driver=x"],
            ["-global", "driver=file,property=filename,value=/etc/passwd"],
            ["-global", "virtio-9p-device.path=/"],
            ["--smp", "2"],
            ["-plugin", "evil.so"],
            ["-sandbox", "off"],
        ] {
            assert_eq!(others(&refused), [refused.join(" ")]);
        }
        assert_eq!(others(&["-s"]), ["-s"]);
        assert_eq!(others(&["evil.img"]), ["evil.img"], "a disk");
        assert_eq!(others(&["-smp", "2", "evil.img"]), ["-smp 2 evil.img"]);
        assert_eq!(others(&["-m"]), ["-m"]);
        assert_eq!(others(&["-s", "-smp", "2", "-S"]), ["-s", "-S"]);
        for machine in [
            "virt,dumpdtb=/home/me/.bashrc",
            "virt,aclint=on,dtb=x",
            "virt,aia=x",
            "virt,aclint",
            "virt,memory-backend=x",
            "xilinx-zynq-a9",
            "",
            "virt,",
            "type=virt,dumpdtb=x",
        ] {
            assert!(check_machine(machine).is_err(), "{machine}");
        }
        assert!(check_cpu("rv64,a=b").is_err() && check_cpu("").is_err());
    }
}
