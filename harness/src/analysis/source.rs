//! Source files, found by the paths that DWARF has for them, which are those of the machine that compiled.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::error::InputError;
use crate::profile::Names;

/// Largest file that is taken for source text.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Replacements of the first part of source paths: what `--source-map FROM=TO` was given, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    replacements: Vec<(String, String)>,
}

impl SourceMap {
    /// Reads texts of the form `FROM=TO`. An empty FROM stands for the directory of relative paths.
    ///
    /// # Errors
    /// When one has no `=`.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<SourceMap, InputError> {
        let mut replacements = Vec::new();
        for text in texts {
            let text = text.as_ref();
            let Some((from, to)) = text.split_once('=') else {
                let why = "write it as FROM=TO, such as /build/firmware=/home/me/firmware";
                return Err(InputError::new(format!("--source-map {text}: there is no = in it; {why}")));
            };
            replacements.push((from.to_owned(), to.to_owned()));
        }
        Ok(SourceMap { replacements })
    }

    /// The path with its longest known first part replaced: whole directories only, and of two equal ones
    /// the last that was given.
    pub fn apply<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let rests = self.replacements.iter().filter_map(|(from, to)| Some((from, to, rest(path, from)?)));
        let Some((_, to, rest)) = rests.max_by_key(|(from, _, _)| from.len()) else { return Cow::Borrowed(path) };
        if to.is_empty() || rest.is_empty() || to.ends_with(is_separator) || rest.starts_with(is_separator) {
            return Cow::Owned(format!("{to}{rest}"));
        }
        Cow::Owned(format!("{to}/{rest}"))
    }

    /// Replaces all paths of a profile's source files.
    pub fn relocate(&self, names: &mut Names) {
        if self.replacements.is_empty() {
            return;
        }
        // Strings are names of functions, too, which stay: paths become new strings.
        let mut moved: BTreeMap<u32, u32> = BTreeMap::new();
        let mut strings = std::mem::take(&mut names.strings);
        let mut relocate = |file: &mut u32| {
            *file = *moved.entry(*file).or_insert_with(|| {
                let Some(path) = strings.get(*file as usize).cloned() else { return *file };
                strings.push(self.apply(&path).into_owned());
                strings.len() as u32 - 1
            });
        };
        names.stacks.iter_mut().flatten().filter_map(|frame| frame.file.as_mut()).for_each(&mut relocate);
        names.lines.iter_mut().for_each(|code| relocate(&mut code.file));
        names.strings = strings;
        for file in names.functions.iter_mut().filter_map(|function| function.file.as_mut()) {
            *file = self.apply(file).into_owned();
        }
    }
}

/// The rest of a path behind a directory; None where it does not begin with that.
fn rest<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(directory)?;
    let is_whole = match directory {
        "" => !is_absolute(path),
        _ => directory.ends_with(is_separator) || rest.is_empty() || rest.starts_with(is_separator),
    };
    is_whole.then_some(rest)
}

fn is_separator(character: char) -> bool {
    matches!(character, '/' | '\\')
}

/// Whether a path is absolute on the system that it was written on, Unix or Windows.
fn is_absolute(path: &str) -> bool {
    path.starts_with(is_separator) || path.get(1..2) == Some(":")
}

/// Source files, each read once.
///
/// A path is looked for as the [`SourceMap`] has it; where that is relative, in the current directory and then
/// in the directories around it, the nearest first. Nothing is guessed beyond that: the wrong file of a name
/// would show the wrong lines.
#[derive(Debug, Default)]
pub struct Sources {
    map: SourceMap,
    /// Lines by DWARF's path; None: not found.
    files: BTreeMap<String, Option<Vec<String>>>,
    /// Files that lack a line that was asked for.
    short: Vec<String>,
}

impl Sources {
    /// The source files of a profile, of which none is read yet.
    pub fn new(map: SourceMap) -> Sources {
        Sources { map, ..Sources::default() }
    }

    /// A line (the first is 1), without its end, where its file is found.
    pub fn line(&mut self, file: &str, line: u32) -> Option<&str> {
        if !self.files.contains_key(file) {
            let text = find(Path::new(&*self.map.apply(file)));
            self.files.insert(file.to_owned(), text.map(|text| text.lines().map(str::to_owned).collect()));
        }
        let lines = self.files.get(file)?.as_ref()?;
        let text = lines.get((line as usize).checked_sub(1)?);
        if text.is_none() && !self.short.iter().any(|short| short == file) {
            self.short.push(file.to_owned());
        }
        text.map(String::as_str)
    }

    /// What the user should know of files that were asked for, one sentence per cause.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let missing: Vec<&String> =
            self.files.iter().filter(|(_, text)| text.is_none()).map(|(path, _)| path).collect();
        if let Some(first) = missing.first() {
            let more = match missing.len() - 1 {
                0 => String::new(),
                1 => " and 1 other file".to_owned(),
                more => format!(" and {more} other files"),
            };
            notes.push(format!(
                "{first}{more}: not found; say where the sources are with --source-map FROM=TO, which replaces the \
                 beginning of a path"
            ));
        }
        for file in &self.short {
            notes.push(format!("{file} has fewer lines than the image was compiled from: is it another version?"));
        }
        notes
    }
}

/// The text of a file, wherever it is; what is no UTF-8 in it is replaced.
fn find(path: &Path) -> Option<String> {
    let read = |path: &Path| {
        let is_text = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE_BYTES);
        let bytes = is_text.then(|| fs::read(path).ok()).flatten()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    if path.is_absolute() {
        return read(path);
    }
    let here: PathBuf = env::current_dir().ok()?;
    here.ancestors().find_map(|directory| read(&directory.join(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(map: &[&str], path: &str) -> String {
        SourceMap::parse(map.iter().copied()).unwrap().apply(path).into_owned()
    }

    #[test]
    fn the_longest_directory_is_replaced() {
        let map = ["/build=/src", "/build/vendor=/opt/vendor/", "=/home/me/app", "C:\\fw=/fw"];
        for (path, expected) in [
            ("/build/main.c", "/src/main.c"),
            ("/build", "/src"),
            ("/build/vendor/list.c", "/opt/vendor//list.c"),
            ("/builder/main.c", "/builder/main.c"),
            ("apps/main.c", "/home/me/app/apps/main.c"),
            ("C:\\fw\\main.c", "/fw\\main.c"),
            ("D:\\main.c", "D:\\main.c"),
            ("/über/main.c", "/über/main.c"),
        ] {
            assert_eq!(applied(&map, path), expected, "{path}");
        }
        assert_eq!(applied(&["/build/=src/"], "/build/main.c"), "src/main.c");
        assert_eq!(applied(&["/build/="], "/build/a=b.c"), "a=b.c");
        assert_eq!(applied(&["a=b", "a=c"], "a/x.c"), "c/x.c");
        assert_eq!(applied(&[], "a/x.c"), "a/x.c");
    }

    #[test]
    fn a_replacement_needs_an_equals_sign() {
        let error = SourceMap::parse(["/build"]).unwrap_err();
        assert!(error.to_string().contains("--source-map /build: there is no ="), "{error}");
    }

    #[test]
    fn a_missing_file_is_told_once_and_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("a.c"), b"one\r\ntwo\n\xff").unwrap();
        let mut sources = Sources::new(SourceMap::parse([format!("/build={}", directory.path().display())]).unwrap());
        assert_eq!(sources.line("/build/a.c", 2), Some("two"));
        assert_eq!(sources.line("/build/a.c", 1), Some("one"));
        assert_eq!(sources.notes(), Vec::<String>::new());
        assert_eq!(sources.line("/build/a.c", 9), None);
        assert_eq!(sources.line("/build/b.c", 9), None);
        assert_eq!(sources.line("/build/b.c", 10), None);
        let notes = sources.notes();
        assert!(notes[0].starts_with("/build/b.c: not found; ") && notes[0].contains("--source-map"), "{notes:?}");
        assert!(notes[1].starts_with("/build/a.c has fewer lines"), "{notes:?}");
        assert_eq!(notes.len(), 2);
    }
}
