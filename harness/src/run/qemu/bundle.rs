// SPDX-License-Identifier: MIT OR Apache-2.0
//! The QEMU of a bundle: it comes with this program and has its own libraries and loader, so that it needs no library
//! of the host. `ci/bundle` makes it:
//!
//!     bin/harness
//!     libexec/harness/qemu-system-arm …
//!     libexec/harness/lib/ld.so, libc.so.6 …
//!
//! A program names its loader by an absolute path, but a bundle may lie anywhere. So the loader itself is executed,
//! with the program as its argument.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folder of a bundle's emulators, relative to the parent of this program's folder.
const FOLDER: &str = "libexec/harness";

/// A folder of emulators with their libraries and their loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct Bundle {
    folder: PathBuf,
}

impl Bundle {
    /// The bundle that this program is part of.
    pub(in crate::run) fn own() -> Option<&'static Bundle> {
        static OWN: OnceLock<Option<Bundle>> = OnceLock::new();
        OWN.get_or_init(|| Bundle::with(&env::current_exe().ok()?.canonicalize().ok()?)).as_ref()
    }

    /// The bundle that a program is part of, by its real path.
    fn with(program: &Path) -> Option<Bundle> {
        let bundle = Bundle { folder: program.parent()?.parent()?.join(FOLDER) };
        bundle.loader().is_file().then_some(bundle)
    }

    /// Bundle of an emulator; None: the emulator is not in this program's own bundle.
    pub(in crate::run) fn of(emulator: &Path) -> Option<&'static Bundle> {
        Bundle::own().filter(|bundle| bundle.holds(emulator))
    }

    fn holds(&self, emulator: &Path) -> bool {
        emulator.parent() == Some(&*self.folder)
    }

    /// An emulator by its name.
    pub(in crate::run) fn emulator(&self, program: &str) -> Option<PathBuf> {
        Some(self.folder.join(program)).filter(|path| path.is_file())
    }

    /// Folder of everything that its emulators read as they start.
    pub(in crate::run) fn folder(&self) -> &Path {
        &self.folder
    }

    fn libraries(&self) -> PathBuf {
        self.folder.join("lib")
    }

    /// The loader, the only file that is executed.
    pub(in crate::run) fn loader(&self) -> PathBuf {
        self.libraries().join("ld.so")
    }

    /// Arguments of the loader for an emulator. The loader uses only the bundle's libraries, even if one is missing
    /// there.
    pub(in crate::run) fn arguments(&self, emulator: &Path) -> Vec<OsString> {
        let name = emulator.file_name().unwrap_or_default();
        let mut words: Vec<OsString> = vec!["--inhibit-cache".into(), "--library-path".into()];
        words.extend([self.libraries().into(), "--argv0".into(), name.to_owned(), emulator.into()]);
        words
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    impl Bundle {
        /// A bundle of empty files.
        pub(in crate::run) fn made(root: &Path, emulator: &str) -> Bundle {
            let folder = root.join(FOLDER);
            fs::create_dir_all(folder.join("lib")).unwrap();
            fs::write(folder.join("lib/ld.so"), "").unwrap();
            fs::write(folder.join(emulator), "").unwrap();
            Bundle { folder }
        }
    }

    #[test]
    fn a_bundle_is_known_by_its_loader_and_holds_its_own_emulators_only() {
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("bin/harness");
        assert_eq!(Bundle::with(&program), None, "without a loader");
        let made = Bundle::made(temp.path(), "qemu-system-arm");
        let bundle = Bundle::with(&program).unwrap();
        assert_eq!(bundle, made);
        let emulator = bundle.emulator("qemu-system-arm").unwrap();
        assert_eq!(bundle.emulator("qemu-system-riscv64"), None);
        assert!(bundle.holds(&emulator));
        for other in ["/usr/bin/qemu-system-arm", "qemu-system-arm", "/"] {
            assert!(!bundle.holds(Path::new(other)), "{other}");
        }
        let words = bundle.arguments(&emulator);
        assert_eq!(words.last().map(PathBuf::from), Some(emulator));
        assert!(words.contains(&"qemu-system-arm".into()), "the name that QEMU is to see: {words:?}");
    }

    #[test]
    fn a_program_in_no_folder_is_of_no_bundle() {
        assert_eq!(Bundle::with(Path::new("/")), None);
        assert_eq!(Bundle::with(Path::new("harness")), None);
    }
}
