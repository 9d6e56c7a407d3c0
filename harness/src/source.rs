//! Where the sources of a firmware are on this machine: paths in a profile are those of the machine that built
//! it.

use std::borrow::Cow;

use crate::image::InputError;

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
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<SourceMap, InputError> {
        let mut replacements = Vec::new();
        for text in texts {
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
}

/// What follows a directory in a path.
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

/// On whichever system it was written.
fn is_absolute(path: &str) -> bool {
    path.starts_with(is_separator) || path.get(1..2) == Some(":")
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
}
