// SPDX-License-Identifier: MIT OR Apache-2.0
//! Detects misplaced words: a first word that is neither a command nor a file, and options of harness after the
//! firmware. clap takes the first for a firmware file and the others for the firmware's arguments, so both need a
//! message of their own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::error::InputError;
use crate::profile::{Profile, files};

/// Error about a first word that looks like a command and is neither a command nor a file; None: the word is right.
pub fn unknown_command(word: &OsStr) -> Option<InputError> {
    let word = word.to_str()?;
    let looks_like_one = word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '_');
    if !looks_like_one || Path::new(word).exists() {
        return None;
    }
    let cli = Cli::command();
    let names = || cli.get_subcommands().map(|command| command.get_name()).chain(["help"]);
    if names().any(|name| name == word) {
        return None;
    }
    let nearest = names().map(|name| (strsim::damerau_levenshtein(word, name), name)).min();
    let near = nearest.filter(|&(distance, _)| distance <= 1 + word.len() / 4);
    Some(InputError::new(match near {
        Some((_, name)) => format!("no such command `{word}`; did you mean `{name}`?"),
        None => format!("no such command `{word}`, and no such file; `harness --help` lists the commands"),
    }))
}

/// Words of the command line, with `top` before a saved profile that stands where firmware is meant: `harness fw.profile`.
pub fn with_top(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    if words.get(1).is_some_and(|word| is_profile(Path::new(word))) {
        words.insert(1, "top".into());
    }
    words
}

/// Whether a path is a profile's directory, or a file that begins as profiles do.
fn is_profile(path: &Path) -> bool {
    let mut first = [0; 8];
    let file = if path.is_dir() { path.join(files::FILE_NAME) } else { path.to_owned() };
    file.is_file()
        && File::open(file).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && Profile::begins(&first)
}

/// Warning about an option of harness after the firmware of `harness run`, which is passed to the firmware. None: there
/// is no such option, or `--` marks the words as the firmware's.
pub fn misplaced_option(firmware_and_args: &[OsString]) -> Option<String> {
    let cli = Cli::command();
    let run = cli.find_subcommand("run")?;
    let is_ours = |word: &str| {
        let name = word.split('=').next().unwrap_or(word);
        let is_long = |long: &str| name.strip_prefix("--") == Some(long);
        let is_short = |short: char| word.strip_prefix('-').is_some_and(|rest| rest.starts_with(short));
        let mut visible = run.get_arguments().filter(|argument| !argument.is_hide_set());
        visible.any(|argument| argument.get_long().is_some_and(is_long) || argument.get_short().is_some_and(is_short))
    };
    let words = firmware_and_args.iter().skip(1).map_while(|word| word.to_str());
    let word = words.take_while(|&word| word != "--").find(|word| is_ours(word))?;
    Some(format!(
        "`{word}` after the firmware is passed to the firmware; put harness's options before the firmware, or -- \
         after it if that is meant"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_looks_like_a_command_and_is_none_says_which_is_near() {
        let said = |word: &str| unknown_command(OsStr::new(word)).map(|error| error.to_string());
        let near = |word: &str, name: &str| Some(format!("no such command `{word}`; did you mean `{name}`?"));
        assert_eq!(said("prfile"), near("prfile", "profile"));
        assert_eq!(said("anotate"), near("anotate", "annotate"));
        assert_eq!(said("tpo"), near("tpo", "top"));
        assert!(
            said("firmware").unwrap().starts_with("no such command `firmware`, and no such file; `harness --help`")
        );
        // A command, an option, a file that may be missing, and existing files.
        for word in ["top", "help", "--version", "-h", "firmware.elf", "./prfile", "a/b", "FIRMWARE", "", "src"] {
            assert_eq!(said(word), None, "{word}");
        }
    }

    #[test]
    fn an_option_of_ours_that_the_firmware_gets_is_named_once() {
        let said = |words: &[&str]| misplaced_option(&words.iter().map(OsString::from).collect::<Vec<_>>());
        for (words, named) in [
            (&["f.elf", "--exact", "--for", "1M"][..], "--exact"),
            (&["f.elf", "x", "--for=1M"], "--for=1M"),
            (&["f.elf", "-oDIR"], "-oDIR"),
        ] {
            let line = said(words).unwrap();
            assert!(line.starts_with(&format!("`{named}` after the firmware")), "{line}");
            assert_eq!(line.matches("is passed to the firmware").count(), 1);
        }
        for words in [
            &["--exact"][..],
            &["f.elf"],
            &["f.elf", "--", "--exact"],
            &["f.elf", "a", "--", "--exact"],
            &["f.elf", "--nocapture", "exact", "-", "--oracle", "--forest"],
        ] {
            assert_eq!(said(words), None, "{words:?}");
        }
    }
}
