//! The promise: manual pages and completions, which a package installs, match the program's options, and `--version`
//! identifies the program.

use std::fs;
use std::process::Command;

use crate::common::harness;

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
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), commands.len() + 2, "and the program's own");
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

#[test]
fn a_shell_completes_commands_and_options() {
    let script = prints(&["completions", "bash"]);
    let complete = |words: &[&str]| {
        let typed = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let last = words.last().unwrap();
        let ask = format!(
            "{script}\nCOMP_WORDS=({typed}) COMP_CWORD={}\n_harness harness '{last}' '{}'\necho \"${{COMPREPLY[@]}}\"",
            words.len() - 1,
            words[words.len() - 2]
        );
        let output = Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete(&["harness", "anno"]).trim(), "annotate");
    let options = complete(&["harness", "profile", "--"]);
    assert!(options.contains("--period") && options.contains("--exact"), "{options}");
    for shell in ["zsh", "fish"] {
        assert!(prints(&["completions", shell]).contains("annotate"), "{shell}");
    }
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
