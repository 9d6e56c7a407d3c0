// SPDX-License-Identifier: MIT OR Apache-2.0
//! Library of a piece of firmware: the crate, or the directory of the source file.

use crate::image::symbols;
use crate::text::symbol_name::original_name;

/// Library of code and data whose origin is unknown.
pub const NO_SOURCE: &str = "[no debug information]";

/// Names the crate of a Rust source file by its path: the standard library's, or one from a registry or from git.
pub(super) fn crate_of_path(path: &str) -> Option<String> {
    let after = |mark: &str| path.split_once(mark).map(|(_, rest)| rest);
    let first = |rest: &str| rest.split(['/', '\\']).next().filter(|part| !part.is_empty()).map(str::to_owned);
    if path.contains("/rustc/") || path.contains("/lib/rustlib/src/rust/") {
        return after("/library/").and_then(first);
    }
    if let Some(rest) = in_registry(path) {
        let name = rest.split('/').next()?;
        let dash = name.match_indices('-').map(|(at, _)| at);
        let version = dash.into_iter().find(|at| name[at + 1..].starts_with(|letter: char| letter.is_ascii_digit()));
        return Some(version.map_or(name.to_owned(), |at| format!("{} {}", &name[..at], &name[at + 1..])));
    }
    let rest = after("/git/checkouts/")?;
    let name = first(rest)?;
    Some(name.rsplit_once('-').map_or(name.clone(), |(name, _)| name.to_owned()))
}

/// Path below a registry's index, which begins with the crate: `registry/src/index.crates.io-1949/` comes before it.
fn in_registry(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("registry/")?;
    let rest = rest.strip_prefix("src/").unwrap_or(rest);
    rest.split_once('/').filter(|(index, _)| index.contains('-')).map(|(_, rest)| rest)
}

/// Names the crate of a mangled Rust symbol by its demangled path: `app::main` and `<app::T as core::X>::f` are of
/// `app`.
pub(super) fn crate_of_symbol(linkage_name: &str, demangled: &str) -> Option<String> {
    if !symbols::is_rust(original_name(linkage_name)) {
        return None;
    }
    let path = demangled.trim_start_matches(['<', '&', '*', '[', '(']);
    let path = path.strip_prefix("mut ").or_else(|| path.strip_prefix("dyn ")).unwrap_or(path);
    let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    let is_path = rest.starts_with("::") && !name.is_empty();
    // A primitive type's own methods are the core library's.
    Some(if is_path { name.to_owned() } else { "core".to_owned() })
}

/// Directory of a file, with `/` between its parts.
pub(super) fn directory(path: &str) -> String {
    let path = path.replace('\\', "/");
    path.rsplit_once('/').map_or(".", |(directory, _)| directory).to_owned()
}

/// Beginning that the directories of one project share, up to and without the last common part, which names the
/// project.
pub(super) fn common_prefix<'a>(directories: impl Iterator<Item = &'a str>) -> String {
    let mut common: Option<Vec<&str>> = None;
    for directory in directories {
        let parts: Vec<&str> = directory.split('/').collect();
        let shared = common
            .as_ref()
            .map_or(parts.len(), |common| common.iter().zip(&parts).take_while(|(one, other)| one == other).count());
        common = Some(parts[..shared].to_vec());
    }
    let mut common = common.unwrap_or_default();
    common.pop();
    common.iter().map(|part| format!("{part}/")).collect()
}

/// Path without the beginning that is the same everywhere: the project's, a registry's or the toolchain's.
pub(super) fn shortened(path: &str, prefix: &str) -> String {
    let outside = in_registry(path).or_else(|| Some(path.split_once("/git/checkouts/")?.1));
    let toolchain = || {
        let is_rust = path.contains("/rustc/") || path.contains("/lib/rustlib/src/rust/");
        path.rfind("/library/").filter(|_| is_rust).map(|at| &path[at + 1..])
    };
    outside.or_else(toolchain).unwrap_or_else(|| path.strip_prefix(prefix).unwrap_or(path)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_by_its_sources_path_and_by_its_symbols() {
        for (path, name) in [
            ("/rustc/48a6ca9/library/core/src/fmt/mod.rs", Some("core")),
            ("/home/u/.rustup/toolchains/x/lib/rustlib/src/rust/library/alloc/src/vec.rs", Some("alloc")),
            (
                "/home/u/.cargo/registry/src/index.crates.io-1949/cortex-m-rt-0.7.5/src/lib.rs",
                Some("cortex-m-rt 0.7.5"),
            ),
            ("registry/index.crates.io-1949/cortex-m-0.7.7/src/asm.rs", Some("cortex-m 0.7.7")),
            ("/home/u/.cargo/git/checkouts/embassy-0a1b2c/f00/embassy-time/src/lib.rs", Some("embassy")),
            ("/work/app/src/main.rs", None),
        ] {
            assert_eq!(crate_of_path(path).as_deref(), name, "{path}");
        }
        for (linkage_name, demangled, name) in [
            ("_ZN3app4main17h0123456789abcdefE", "app::main", Some("app")),
            ("_RNvX", "<app::Thing as core::fmt::Debug>::fmt", Some("app")),
            ("_RNvX", "<&mut heap::T as core::fmt::Debug>::fmt", Some("heap")),
            ("_RNvX", "<u32 as core::fmt::Debug>::fmt", Some("core")),
            ("_ZN3app4mainEv", "app::main()", None),
            ("_ZN17hello_world_class3fooEv", "hello_world_class::foo()", None),
            ("main", "main", None),
        ] {
            assert_eq!(crate_of_symbol(linkage_name, demangled).as_deref(), name, "{demangled}");
        }
    }

    #[test]
    fn directories_are_shown_from_the_projects_own_on() {
        let prefix = common_prefix(["/w/project/apps/a", "/w/project/ports", "/w/project/apps"].into_iter());
        assert_eq!(prefix, "/w/");
        assert_eq!(common_prefix(["/w/project/apps"].into_iter()), "/w/project/");
        assert_eq!(common_prefix(std::iter::empty()), "");
        assert_eq!(shortened("/w/project/apps/a.c", "/w/"), "project/apps/a.c");
        assert_eq!(shortened("/rustc/48a/library/core/src/lib.rs", "/w/"), "library/core/src/lib.rs");
        assert_eq!(shortened("/u/.cargo/registry/src/index-0/a-1/b.rs", "/w/"), "a-1/b.rs");
        assert_eq!([directory("/a/b/c.c"), directory("c.c"), directory(r"C:\x\y.c")], ["/a/b", ".", "C:/x"]);
    }
}
