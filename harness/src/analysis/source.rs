// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source files, found by their paths in DWARF, which are paths of the machine that compiled.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::error::InputError;
use crate::image::bounded_read;
use crate::profile::Names;
use crate::text::path::normal;

/// Largest file accepted as source text, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Replacements of the beginnings of source paths, from all `--source-map FROM=TO` options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    replacements: Vec<(String, String)>,
}

impl SourceMap {
    /// Reads texts of the form `FROM=TO`. An empty FROM stands for the directory of relative paths.
    ///
    /// # Errors
    /// When a text has no `=`.
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<SourceMap, InputError> {
        let mut replacements = Vec::new();
        for text in texts {
            let text = text.as_ref();
            let Some((from, to)) = text.split_once('=') else {
                let why = "write it as FROM=TO, such as /build/firmware=/home/me/firmware";
                return Err(InputError::new(format!("--source-map {text}: there is no = in it; {why}")));
            };
            replacements.push((normal(from).into_owned(), to.to_owned()));
        }
        Ok(SourceMap { replacements })
    }

    /// Path with its longest known beginning replaced. A beginning is whole directories; of two equal ones the last
    /// given counts.
    pub fn apply<'p>(&self, path: &'p str) -> Cow<'p, str> {
        // Profiles of earlier versions have paths as the debug information spells them.
        let known = normal(path);
        let rests = self.replacements.iter().filter_map(|(from, to)| Some((from, to, rest(&known, from)?)));
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
        // Strings also name functions, which must stay: paths become new strings.
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

/// Rest of a path after a directory; None: the path is not in it.
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

/// Whether a path is absolute on its original system, Unix or Windows.
fn is_absolute(path: &str) -> bool {
    path.starts_with(is_separator) || path.get(1..2) == Some(":")
}

/// Source files, each read once.
///
/// A path is looked up as mapped by the [`SourceMap`]. A relative one is searched in the current directory and then
/// in its parents up to the repository's root. There is no further guessing, since a wrong file of the same name
/// would show wrong lines.
///
/// The image's author chose the paths, and the content is shown to others: so only files within [`Roots`] are read.
#[derive(Debug, Default)]
pub struct Sources {
    map: SourceMap,
    roots: Roots,
    /// Results by DWARF's path.
    files: BTreeMap<String, Found>,
    /// Files that lack a requested line.
    short: Vec<String>,
}

/// Whether a path belongs to a compiler's libraries or to a package, whose sources are often missing.
fn is_third_party(path: &str) -> bool {
    const FOLDERS: [&str; 9] =
        ["rustc", "rustlib", ".rustup", ".cargo", "registry", "newlib", "picolibc", "libgcc", "libstdc++-v3"];
    const BEGINNINGS: [&str; 4] = ["newlib-", "picolibc-", "gcc-", "glibc-"];
    let mut folders = path.split(['/', '\\']);
    ["/usr/", "/opt/"].iter().any(|above| path.starts_with(above))
        || folders.any(|folder| FOLDERS.contains(&folder) || BEGINNINGS.iter().any(|begin| folder.starts_with(begin)))
}

/// Result of looking up a file.
#[derive(Debug)]
enum Found {
    /// Its lines.
    Lines(Vec<String>),
    /// The file does not exist.
    Missing,
    /// The file exists outside of the roots.
    Outside,
}

/// Directories that sources may be read from, as absolute paths without links: the current one, its repository, and
/// those of `--source-map`.
#[derive(Debug, Default)]
struct Roots {
    /// Directories for relative paths, the nearest first.
    around: Vec<PathBuf>,
    /// The repository, or the current directory; None: it is the whole file system.
    own: Option<PathBuf>,
    mapped: Vec<PathBuf>,
}

/// File name extensions of sources. Other files are only read where `--source-map` leads, since a project's folder
/// also holds keys and settings.
const ENDINGS: [&str; 41] = [
    "c", "h", "cc", "hh", "cpp", "hpp", "cxx", "hxx", "c++", "h++", "cppm", "ixx", "inl", "inc", "ipp", "tcc", "tpp",
    "def", "s", "asm", "sx", "ld", "lds", "x", "y", "l", "ino", "rs", "zig", "adb", "ads", "go", "swift", "d", "nim",
    "f", "f90", "pas", "v", "m", "mm",
];

/// Directories of the system's state, which includes processes' secrets.
const NEVER: [&str; 3] = ["/proc", "/sys", "/dev"];

impl Roots {
    fn new(map: &SourceMap) -> Roots {
        let Ok(here) = env::current_dir().and_then(fs::canonicalize) else { return Roots::default() };
        let repository = here.ancestors().find(|directory| directory.join(".git").exists()).unwrap_or(&here);
        let around = here.ancestors().take_while(|directory| directory.starts_with(repository));
        let around: Vec<PathBuf> = around.map(Path::to_owned).collect();
        let own = Some(repository.to_owned()).filter(|directory| directory.parent().is_some());
        let mapped = map.replacements.iter().filter(|(_, to)| !to.is_empty());
        let mapped = mapped.flat_map(|(_, to)| around.iter().map(move |directory| directory.join(to)));
        let mapped = mapped.filter_map(|directory| fs::canonicalize(directory).ok());
        Roots { own, mapped: mapped.collect(), around }
    }

    /// Whether a file may be read; its path is absolute and without links. Hidden directories hold tools' state and
    /// secrets (`.git/config`, `.ssh`) and no sources; `--source-map` can lead into one.
    fn hold(&self, file: &Path) -> bool {
        let is_plain = |below: &Path| !below.components().any(|part| part.as_os_str().as_encoded_bytes()[0] == b'.');
        let is_below = |root: &Path| file.strip_prefix(root).is_ok_and(is_plain);
        let is_own = || self.own.as_deref().is_some_and(is_below) && is_source(file);
        !NEVER.iter().any(|never| file.starts_with(never))
            && (self.mapped.iter().any(|root| is_below(root)) || is_own())
    }

    fn find(&self, path: &Path) -> Found {
        let candidates = match path.is_absolute() {
            true => vec![path.to_owned()],
            false => self.around.iter().map(|directory| directory.join(path)).collect(),
        };
        let mut found = Found::Missing;
        for file in candidates.iter().filter_map(|candidate| fs::canonicalize(candidate).ok()) {
            if !self.hold(&file) {
                found = Found::Outside;
            } else if let Some(text) = read(&file) {
                return Found::Lines(text.lines().map(str::to_owned).collect());
            }
        }
        found
    }
}

/// Whether a file's name ends as a source's name does.
fn is_source(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    ending.is_some_and(|ending| ENDINGS.contains(&&*ending))
}

/// Text of a file, with invalid UTF-8 replaced.
fn read(path: &Path) -> Option<String> {
    let is_text = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE_BYTES);
    let bytes = is_text.then(|| bounded_read::read(path).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl Sources {
    /// Sources of a profile, none of them read yet.
    pub fn new(map: SourceMap) -> Sources {
        Sources { roots: Roots::new(&map), map, ..Sources::default() }
    }

    /// A line (the first is 1) without its end, if the file is found.
    pub fn line(&mut self, file: &str, line: u32) -> Option<&str> {
        if !self.files.contains_key(file) {
            let found = self.roots.find(Path::new(&*self.map.apply(file)));
            self.files.insert(file.to_owned(), found);
        }
        let Some(Found::Lines(lines)) = self.files.get(file) else { return None };
        let text = lines.get((line as usize).checked_sub(1)?);
        if text.is_none() && !self.short.iter().any(|short| short == file) {
            self.short.push(file.to_owned());
        }
        text.map(String::as_str)
    }

    /// Remarks for the user on missing files, one sentence per cause.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let unread = |found: &Found| !matches!(found, Found::Lines(_));
        if let Some(others) = self.first(|path, found| is_third_party(path) && unread(found)) {
            notes.push(format!("third-party sources are not shown: {others}"));
        }
        let own = |path: &str| !is_third_party(path);
        if let Some(missing) = self.first(|path, found| own(path) && matches!(found, Found::Missing)) {
            notes.push(format!(
                "{missing}: not found; say where the sources are with --source-map FROM=TO, which replaces the \
                 beginning of a path"
            ));
        }
        if let Some(outside) = self.first(|path, found| own(path) && matches!(found, Found::Outside)) {
            notes.push(format!(
                "{outside}: left out; sources are read below the current directory, its repository and what \
                 --source-map FROM=TO names, but not in hidden directories or through links that lead out; \
                 without --source-map a file needs a source's name (.c, .rs)"
            ));
        }
        for file in &self.short {
            notes.push(format!("{file} has fewer lines than the image was compiled from: is it another version?"));
        }
        notes
    }

    /// First file that fulfils a condition, with the number of others.
    fn first(&self, holds: impl Fn(&str, &Found) -> bool) -> Option<String> {
        let mut paths = self.files.iter().filter(|(path, found)| holds(path, found)).map(|(path, _)| path);
        let first = paths.next()?;
        let more = match paths.count() {
            0 => String::new(),
            1 => " and 1 other file".to_owned(),
            more => format!(" and {more} other files"),
        };
        Some(format!("{first}{more}"))
    }
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
            ("C:\\fw\\main.c", "/fw/main.c"),
            ("C:/fw\\src\\..\\main.c", "/fw/main.c"),
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

    #[test]
    fn third_party_sources_that_are_missing_take_one_line_without_advice() {
        let mut sources = Sources::new(SourceMap::default());
        for file in [
            "/rustc/59807616e1fa/library/core/src/num/mod.rs",
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cortex-m-0.7.7/src/asm.rs",
            "/build/newlib-4.4/newlib/libc/string/memcpy.c",
            "../../../../gcc-14.2.0/libgcc/config/arm/ieee754-sf.S",
        ] {
            assert_eq!(sources.line(file, 1), None);
        }
        let notes = sources.notes();
        assert_eq!(
            notes,
            [
                "third-party sources are not shown: ../../../../gcc-14.2.0/libgcc/config/arm/ieee754-sf.S and 3 other files"
            ]
        );
        assert_eq!(sources.line("/build/app/main.c", 1), None);
        assert!(sources.notes()[1].contains("/build/app/main.c: not found; say where the sources are"));
    }

    #[test]
    fn only_what_lies_below_a_root_is_read_and_no_link_leads_out() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for folder in ["repository/src", "repository/.git", "outside", "hidden/.pio"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        let files =
            ["repository/src/a.c", "repository/.git/config", "outside/secret", "hidden/.pio/lib.c", "repository/b.h"];
        files.iter().for_each(|file| fs::write(at(file), "text\n").unwrap());
        std::os::unix::fs::symlink(at("outside/secret"), at("repository/src/link.c")).unwrap();
        std::os::unix::fs::symlink(at("repository/b.h"), at("repository/src/b.h")).unwrap();
        std::os::unix::fs::symlink("/proc/self/environ", at("repository/src/environ")).unwrap();
        let path = |name: &str| at(name).display().to_string();
        let rules = [format!("/build={}", path("repository")), format!("/pio={}", path("hidden/.pio"))];
        let mut sources = Sources::new(SourceMap::parse(&rules).unwrap());
        // A path that leads out of the mapped directory is not in it.
        assert_eq!(Sources::new(SourceMap::parse(&rules).unwrap()).line("/build/../outside/secret", 1), None);
        for file in ["/build/src/a.c", &path("repository/src/a.c"), "/build/src/b.h", "/pio/lib.c"] {
            assert_eq!(sources.line(file, 1), Some("text"), "{file}");
        }
        assert_eq!(sources.notes(), [""; 0]);
        let out = [
            "/build/src/link.c".to_owned(),
            "/build/src/environ".to_owned(),
            "/build/.git/config".to_owned(),
            path("outside/secret"),
            "/proc/self/environ".to_owned(),
            "/etc/passwd".to_owned(),
            "../../../../../../../../../../../../etc/passwd".to_owned(),
        ];
        for file in &out {
            assert_eq!(sources.line(file, 1), None, "{file}");
        }
        let notes = sources.notes();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains(" and 6 other files: left out; "), "{notes:?}");
        // In a project's own folder only files with a source's name are read.
        let own = Roots { own: Some(at("repository").canonicalize().unwrap()), ..Roots::default() };
        for name in ["key.pem", "gha-creds-1.json", "settings", ".env", "secrets.toml"] {
            fs::write(at("repository").join(name), "text\n").unwrap();
        }
        let held = |name: &str| own.hold(&at("repository").canonicalize().unwrap().join(name));
        assert!(held("src/a.c") && held("b.h") && held("START.S") && held("src/main.rs"));
        assert!(
            !["key.pem", "gha-creds-1.json", "settings", ".env", "secrets.toml", ".git/x.c"].into_iter().any(held)
        );
        // Never read, even if a map leads there.
        let mut named = Sources::new(SourceMap::parse(["/x=/proc/self"]).unwrap());
        assert_eq!(named.line("/x/status", 1), None);
    }
}
