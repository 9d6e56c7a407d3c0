// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of functions without the compilers' additions: endings of clones and pieces, hashes, numbers of closures.

/// Endings by which gcc, clang and rustc name a function that they made of another one; a number follows most of them.
const CLONE_ENDINGS: [&str; 10] = [
    ".constprop",
    ".isra",
    ".part",
    ".cold",
    ".clone",
    ".specialized",
    ".lto_priv",
    ".llvm",
    ".localalias",
    ".ltrans",
];

/// Endings of pieces, which only the rest of their function enters.
const PIECE_ENDINGS: [&str; 2] = [".part.", ".cold"];

/// Name of the function of which a clone or piece was made; for any other function, the name itself.
pub fn original_name(name: &str) -> &str {
    let mut name = name;
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        let stem = if is_number { before } else { name };
        let Some(shorter) = CLONE_ENDINGS.iter().find_map(|ending| stem.strip_suffix(ending)) else { break };
        if shorter.is_empty() {
            break;
        }
        name = shorter;
    }
    name
}

/// A name without the suffixes that compilers give to clones, and without the hash of Rust's older mangling.
pub fn stable_name(name: &str) -> &str {
    let name = original_name(name);
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

/// Whether a name has the ending of a piece, which is entered from the rest of its function.
pub fn is_piece(name: &str) -> bool {
    let endings = &name[original_name(name).len()..];
    PIECE_ENDINGS.iter().any(|ending| endings.contains(ending))
}

/// Name of the function of which a symbol is the seldom executed part, to which it jumps. None: it is no such part.
pub fn hot_name(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let stem = if stem.len() < name.len() { stem.strip_suffix('.')? } else { stem };
    stem.strip_suffix(".cold").filter(|hot| !hot.is_empty())
}

/// A function's name across runs: [`stable_name`] without the numbers that Rust gives to closures in the order of the
/// source. Functions with equal names count as one, and their numbers are added up.
pub fn key_name(name: &str) -> String {
    let mut text = String::new();
    let mut rest = stable_name(name);
    while let Some((before, number)) = rest.split_once('#') {
        let digits = number.len() - number.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        // Drop the numbers of Rust's `{closure#0}` and `{shim:vtable#0}`, and keep those of C++'s `{lambda(int)#1}`,
        // which have always been in baselines.
        let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b':'));
        let is_number = digits > 0 && number[digits..].starts_with('}');
        text += before;
        if is_number && before.rsplit_once('{').is_some_and(|(_, word)| is_word(word)) {
            rest = &number[digits..];
        } else {
            text.push('#');
            rest = number;
        }
    }
    text + rest
}

/// Last part of a path, with Unix's or Windows's separators.
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_add_to_a_name_is_no_part_of_it() {
        for (name, stable) in [
            ("crc32", "crc32"),
            ("crc32.constprop.0", "crc32"),
            ("crc32.isra.0.part.12", "crc32"),
            ("vTaskSwitchContext.part.0", "vTaskSwitchContext"),
            ("init.cold", "init"),
            ("f.lto_priv.3.constprop.1", "f"),
            ("app::run::h0123456789abcdef", "app::run"),
            ("app::hash", "app::hash"),
            // Hexadecimal digits, but too few or too many; and the right number of other digits.
            ("app::h0123456789abcde", "app::h0123456789abcde"),
            ("app::h0123456789abcdef0", "app::h0123456789abcdef0"),
            ("app::handle_interrupts", "app::handle_interrupts"),
            ("v1.2", "v1.2"),
            (".part.0", ".part.0"),
        ] {
            assert_eq!(stable_name(name), stable);
        }
    }

    #[test]
    fn a_mangled_name_keeps_all_but_the_clones_endings() {
        for (name, original) in [
            ("pool_get.constprop.0", "pool_get"),
            ("pool_get.isra.0.constprop.1.cold", "pool_get"),
            ("_Z8pool_getj.part.0", "_Z8pool_getj"),
            ("pool_get", "pool_get"),
            (".cold", ".cold"),
            (
                "_ZN55_$LT$a..B$u20$as$u20$core..C$GT$3get17h0123456789abcdefE",
                "_ZN55_$LT$a..B$u20$as$u20$core..C$GT$3get17h0123456789abcdefE",
            ),
        ] {
            assert_eq!(original_name(name), original);
        }
        for (name, expected) in
            [("f.part.0", true), ("f.cold", true), ("f.constprop.0.cold", true), ("f.isra.0", false)]
        {
            assert_eq!(is_piece(name), expected, "{name}");
        }
    }

    #[test]
    fn a_cold_part_is_of_the_function_that_is_named_before_it() {
        for (name, hot) in [
            ("parse.cold", Some("parse")),
            ("parse.cold.12", Some("parse")),
            ("f.constprop.0.cold", Some("f.constprop.0")),
            ("f.part.0", None),
            (".cold", None),
            ("cold", None),
            ("f2", None),
        ] {
            assert_eq!(hot_name(name), hot, "{name}");
        }
    }
}
