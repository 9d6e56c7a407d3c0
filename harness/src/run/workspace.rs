//! Where one run keeps its files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::InputError;
use crate::run::directory;

/// Where one run keeps its files; QEMU sees them by names that depend on nothing.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    profile: PathBuf,
}

impl Workspace {
    /// Lays the directories out below `root`, which must be empty. Messages name `profile`, the
    /// directory that the user asked for.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn create(root: PathBuf, profile: &Path) -> Result<Workspace, InputError> {
        let workspace = Workspace { root, profile: profile.to_owned() };
        for directory in [workspace.scratch(), workspace.records()] {
            fs::create_dir(directory).map_err(|error| workspace.unwritable(&error))?;
        }
        Ok(workspace)
    }

    /// The error of a file in here that cannot be written.
    pub fn unwritable(&self, error: &std::io::Error) -> InputError {
        directory::unwritable(&self.profile, error)
    }

    /// The directory that all of it lies in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// QEMU's working directory: all that semihosting may touch.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// The plugin's records.
    pub fn records(&self) -> PathBuf {
        self.root.join("records")
    }

    /// What the firmware printed.
    pub fn console(&self) -> PathBuf {
        self.root.join("console.log")
    }

    /// The pipe through which the console's input goes.
    pub fn console_input(&self) -> PathBuf {
        self.root.join("console.in")
    }

    /// What QEMU itself said.
    pub fn stderr(&self) -> PathBuf {
        self.root.join("stderr")
    }

    /// The image as QEMU loads it.
    pub fn image(&self) -> PathBuf {
        self.root.join("firmware.elf")
    }

    /// The plugin's library.
    pub fn plugin(&self) -> PathBuf {
        self.root.join("plugin.so")
    }
}
