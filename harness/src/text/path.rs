// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of source files in debug information, which each unit may spell in its own way: `../src/x.h` from one directory is
//! `./x.h` from another, and compilers on Windows mix both separators.

use std::borrow::Cow;

/// One spelling of a path: no `.`, no `x/..`, no doubled separator, and `/` as the separator. A backslash belongs to a name
/// only if the path begins with `/`. Upper and lower case stay. Links are not known here: the files are those of another
/// machine.
pub fn normal(path: &str) -> Cow<'_, str> {
    let is_unix = path.starts_with('/');
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    let begin = path.strip_prefix("//").or_else(|| path.strip_prefix('/'));
    let mut parts = begin.unwrap_or(path).split('/');
    if (is_unix || !path.contains('\\')) && parts.all(is_plain) {
        return Cow::Borrowed(path);
    }
    let path = if is_unix { Cow::Borrowed(path) } else { Cow::Owned(path.replace('\\', "/")) };
    // A share begins with two separators, a drive with its letter.
    let root_bytes = match path.as_bytes() {
        [b'/', b'/', next, ..] if *next != b'/' => 2,
        [b'/', ..] => 1,
        [letter, b':', b'/', ..] if letter.is_ascii_alphabetic() => 3,
        _ => 0,
    };
    let (root, rest) = path.split_at(root_bytes);
    let mut kept: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match (part, kept.last()) {
            ("" | ".", _) => {}
            ("..", Some(&last)) if last != ".." => drop(kept.pop()),
            ("..", None) if !root.is_empty() => {}
            _ => kept.push(part),
        }
    }
    let end = if rest.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    let text = format!("{root}{}{end}", kept.join("/"));
    Cow::Owned(if text.is_empty() && !path.is_empty() { ".".to_owned() } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_spelling() {
        for (path, expected) in [
            ("/home/dev/fw/a/../inc/x.h", "/home/dev/fw/inc/x.h"),
            ("/home/dev/fw/./inc//x.h", "/home/dev/fw/inc/x.h"),
            ("/../x.h", "/x.h"),
            ("../src/main.c", "../src/main.c"),
            ("../../a/../src/main.c", "../../src/main.c"),
            ("./main.c", "main.c"),
            ("a/..", "."),
            (r"C:\work\fw\src\live.c", "C:/work/fw/src/live.c"),
            (r"C:\work\fw\build\..\src/live.c", "C:/work/fw/src/live.c"),
            ("C:/work/../Src/Live.c", "C:/Src/Live.c"),
            (r"C:\..\x.c", "C:/x.c"),
            (r"src\live.c", "src/live.c"),
            (r"\\server\share\.\x.c", "//server/share/x.c"),
            (r"C:\fw\", "C:/fw/"),
            ("/fw/", "/fw/"),
            ("///fw//x.c", "/fw/x.c"),
            ("<built-in>", "<built-in>"),
            ("main.c", "main.c"),
            (r"/odd/a\b.c", r"/odd/a\b.c"),
            ("/x/...c", "/x/...c"),
            ("/", "/"),
            ("", ""),
        ] {
            assert_eq!(normal(path), expected, "{path}");
            assert_eq!(normal(expected), expected, "{path}: twice");
        }
    }
}
