// SPDX-License-Identifier: MIT OR Apache-2.0
//! The promise: manual pages and completions, which a package installs, match the program's options, and `--version`
//! identifies the program.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{harness, image};

/// Output of the program.
#[track_caller]
fn prints(args: &[&str]) -> String {
    let output = harness().args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Commands listed in the help.
fn commands() -> Vec<String> {
    let help = prints(&["--help"]);
    let listed = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let words = listed.lines().filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    words.map(|line| line.split(' ').next().unwrap().to_owned()).filter(|word| word != "help").collect()
}

#[test]
fn each_command_has_a_manual_page_with_its_options() {
    let temp = tempfile::tempdir().unwrap();
    prints(&["man", temp.path().to_str().unwrap()]);
    let commands = commands();
    assert!(commands.contains(&"doctor".to_owned()) && commands.len() > 10, "{commands:?}");
    for command in &commands {
        let page = fs::read_to_string(temp.path().join(format!("harness-{command}.1"))).unwrap();
        let help = prints(&[command, "--help"]);
        let options = help.lines().filter_map(|line| Some(line.trim_start().split_once("--")?.1));
        let options = options.filter_map(|line| line.split([' ', ',', '[', '=']).next());
        let of_line_starts = |name: &&str| {
            help.lines().any(|line| {
                let line = line.trim_start();
                line.starts_with(&format!("--{name}"))
                    || line.contains(&format!(", --{name}")) && line.starts_with('-')
            })
        };
        for name in options.filter(|name| !name.is_empty()).filter(of_line_starts) {
            assert!(page.contains(&format!("\\-\\-{}", name.replace('-', "\\-"))), "{command}: --{name}\n{page}");
        }
    }
    // A command of a command has a page, too.
    let learn = fs::read_to_string(temp.path().join("harness-chip-learn.1")).unwrap();
    assert!(learn.contains("\\-\\-for") && learn.contains("\\-\\-output"), "{learn}");
    assert_eq!(
        fs::read_dir(temp.path()).unwrap().count(),
        commands.len() + 5,
        "and those of chip, and the program's own"
    );
    let own = fs::read_to_string(temp.path().join("harness.1")).unwrap();
    assert_eq!(prints(&["man"]), own);
}

#[test]
fn pages_that_cannot_be_written_say_where_why_and_what_to_do() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("man1");
    let output = harness().arg("man").arg(&below).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let expected = format!("{}: manual pages cannot be written there: Not a directory", below.display());
    assert!(stderr.contains(&expected) && stderr.contains("name another directory"), "{stderr}");
}

/// Completes the last of these words in a directory as bash does: it splits words at `:` and `=`, calls the script's
/// function, and puts each reply in place of the last piece.
fn complete(dir: &Path, words: &[&str]) -> Vec<String> {
    let script = prints(&["completions", "bash"]);
    let mut pieces: Vec<String> = Vec::new();
    for word in words {
        let mut piece = String::new();
        for letter in word.chars() {
            let is_break = matches!(letter, ':' | '=');
            if !piece.is_empty() && is_break != piece.ends_with([':', '=']) {
                pieces.push(std::mem::take(&mut piece));
            }
            piece.push(letter);
        }
        pieces.push(piece);
    }
    let typed = pieces.iter().map(|piece| format!("'{piece}'")).collect::<Vec<_>>().join(" ");
    let last = pieces.last().unwrap();
    let ask = format!(
        "{script}\nCOMP_WORDS=({typed}) COMP_CWORD={}\n_harness harness '{last}' ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        pieces.len() - 1,
    );
    let program = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output =
        Command::new("bash").args(["--norc", "-c", &ask]).env("PATH", path).current_dir(dir).output().unwrap();
    let replies = String::from_utf8(output.stdout).unwrap();
    replies.lines().filter(|reply| !reply.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_commands_and_options() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(complete(temp.path(), &["harness", "anno"]), ["annotate"]);
    let options = complete(temp.path(), &["harness", "profile", "--"]);
    assert!(["--period", "--exact"].iter().all(|option| options.iter().any(|reply| reply == option)), "{options:?}");
    for shell in ["zsh", "fish"] {
        assert!(prints(&["completions", shell]).contains("HARNESS_COMPLETE"), "{shell}");
        let mut ask = Command::new(env!("CARGO_BIN_EXE_harness"));
        ask.env("HARNESS_COMPLETE", shell).env("_CLAP_COMPLETE_INDEX", "1").args(["--", "harness", "anno"]);
        let output = ask.output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("annotate"), "{shell}: {output:?}");
    }
}

#[test]
fn a_shell_completes_the_names_that_a_profile_has() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let elf = image("cortex-m3-freertos").display().to_string();
    let made = harness().args([&*elf, "-q", "--for", "2M", "-o", "fw.profile"]).current_dir(dir).status().unwrap();
    assert!(made.success());
    assert_eq!(complete(dir, &["harness", "annotate", "fw.profile", "crc32_"]), ["crc32_bitwise", "crc32_table"]);
    let functions = complete(dir, &["harness", "callers", "fw.profile", ""]);
    assert!(functions.len() > 50 && functions.contains(&"quick_sort".to_owned()), "{functions:?}");
    // Only what comes after the colon is replaced.
    assert_eq!(complete(dir, &["harness", "debug", "fw.profile", "--at", "max:quick_s"]), ["quick_sort"]);
    assert_eq!(complete(dir, &["harness", "debug", "fw.profile", "--at=max:quick_s"]), ["quick_sort"]);
    assert_eq!(complete(dir, &["harness", "debug", "fw.profile", "--at", "switch:cr"]), ["crc"]);
    assert_eq!(complete(dir, &["harness", "debug", "fw.profile", "--at", "max-irq:SysT"]), ["SysTick"]);
    let places = complete(dir, &["harness", "debug", "fw.profile", "--at", "ma"]);
    assert!(places.iter().any(|place| place == "masked-max"), "{places:?}");
    // Of a firmware file, its functions.
    assert_eq!(complete(dir, &["harness", "profile", &elf, "--from", "crc32_t"]), ["crc32_table"]);
    assert_eq!(complete(dir, &["harness", "annotate", "missing.profile", "crc"]), [""; 0]);
    // A name that the shell would take apart is quoted.
    let cpp = image("cortex-m3-cpp").display().to_string();
    let folds = complete(dir, &["harness", "profile", &cpp, "--from", "firmware::fo"]);
    assert!(folds.len() == 1 && folds[0].starts_with(r"fold\<unsigned\ int\,"), "{folds:?}");
    // A star in a name is not a pattern of files.
    fs::write(dir.join("measure(firmware::drivers::Sensor const1 const2, int, int)"), "").unwrap();
    let measures = complete(dir, &["harness", "profile", &cpp, "--from", "firmware::meas"]);
    assert!(measures.len() == 1 && measures[0].contains(r"const\*\ const\*"), "{measures:?}");
    let vectors = complete(dir, &["harness", "profile", &cpp, "--from", "firmware::Vec"]);
    assert!(vectors.iter().any(|name| name.starts_with(r"Vector::operator+\(")), "{vectors:?}");
}

#[test]
fn the_version_says_the_commit_and_the_emulators() {
    let version = prints(&["--version"]);
    let mut lines = version.lines();
    assert_eq!(lines.next(), Some(concat!("harness ", env!("CARGO_PKG_VERSION"))));
    assert!(lines.next().is_some_and(|line| line.starts_with("commit: ")), "{version}");
    assert!(lines.next().is_some_and(|line| line.starts_with("QEMU: 9.2 to ")), "{version}");
    assert_eq!(prints(&["-V"]), concat!("harness ", env!("CARGO_PKG_VERSION"), "\n"));
}
