// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts QEMU so that its run can be held at any instruction.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::request::Debug;

use crate::debug::WORKSHOP;
use crate::debug::process::{Interrupted, Original, Vehicle};
use crate::error::{EmulatorError, InputError};
use crate::measure::{Listener, Loaded, give_files, load};
use crate::run::contain::grants::Walls;
use crate::run::contain::host;
use crate::run::contain::sandbox;
use crate::run::qemu::emulator;
use crate::run::qemu::plugin;
use crate::run::qemu::process::Process;
use crate::run::qemu::start::Start;
use crate::run::qemu::tricks;
use crate::run::request;
use crate::run::request::options::Options;
use crate::run::store::staging::Making;
use crate::run::store::workspace::Workspace;

/// Longest time that QEMU may take to reach the first instruction.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that is needed to start the run, any number of times.
#[derive(Debug)]
pub(crate) struct Launch {
    options: Options,
    loaded: Loaded,
    emulator: PathBuf,
    root: Making,
    started: u32,
}

impl Launch {
    /// Reads the files that the options name.
    ///
    /// # Errors
    /// The errors of a profiling run.
    pub(crate) fn new(options: &Options, listener: &mut dyn Listener) -> Result<Launch> {
        let loaded = load(options, None, listener)?;
        let emulator = emulator::locate(loaded.choice.machine.qemu)?;
        let root = Making::begin(&std::env::temp_dir(), WORKSHOP, |_| ());
        let root = root.map_err(|error| InputError::new(format!("no directory for the run: {error}")))?;
        Ok(Launch { options: options.clone(), loaded, emulator, root, started: 0 })
    }

    /// The image, its machine and names.
    pub(crate) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Starts QEMU, held before the first instruction. `watches`: accesses of memory can be watched.
    ///
    /// # Errors
    /// [`EmulatorError`] when QEMU does not reach the first instruction.
    pub(crate) fn start(&mut self, watches: bool, interrupted: &Interrupted) -> Result<Vehicle> {
        // Each feature is refused only once.
        for _ in 0..3 {
            if let Some(vehicle) = self.try_start(watches, interrupted)? {
                return Ok(vehicle);
            }
        }
        Err(EmulatorError::new("QEMU refuses the plugin".to_owned()).into())
    }

    fn try_start(&mut self, watches: bool, interrupted: &Interrupted) -> Result<Option<Vehicle>> {
        self.started += 1;
        let root = self.root.path().join(self.started.to_string());
        let workspace = make(&root)?;
        let unwritable = |error: io::Error| workspace.unwritable(&error);
        give_files(&self.options, &workspace)?;
        let plan = self.loaded.plan(&self.emulator, &self.options);
        let api = plugin::api(&self.emulator);
        let sandbox = self.options.sandbox;
        let walls = Walls::around(&self.emulator, &workspace, &self.options)?;
        let is_copied = Walls::allow_copies(&self.emulator, sandbox);
        let asked = Debug { is_watched: watches, is_copied };
        let request = request::debug(&plan, asked).map_err(unwritable)?;
        plan.prepare(&request, &workspace, api).map_err(unwritable)?;
        let input = plan.hold_input(&workspace).map_err(unwritable)?;
        let standard_input = plan.standard_input(&workspace).map_err(unwritable)?;
        let (ours, theirs) = UnixStream::pair()?;
        let arguments = plan.arguments_for(Some(api), is_copied);
        let process = Process::start(
            &self.emulator,
            &walls,
            &arguments,
            &workspace,
            standard_input.into(),
            Some(theirs.into()),
        )?;
        let original = Original { process, workspace: workspace.clone(), _input: input };
        let mut vehicle = Vehicle::starting(ours, original, interrupted.clone())?;
        let mut start = None;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let original = vehicle.original().context("QEMU is starting")?;
            let start = start.get_or_insert_with(|| Start::begin(&plan, &mut original.process));
            if let Some(status) = original.process.wait_for_answer(Duration::from_millis(1))? {
                let said = workspace.said();
                if sandbox::is_refused(&self.emulator, sandbox, &said)?
                    || plugin::takes_another(&self.emulator, api, &said)?
                {
                    return Ok(None);
                }
                original.process.version(&self.emulator)?;
                bail!(EmulatorError::new(format!("QEMU did not start ({status}); it said: {}", said.trim())));
            }
            if let Some(version) = original.process.greeted() {
                tricks::check(&self.emulator, version)?;
            }
            start.proceed(&mut original.process, &workspace)?;
            if let Ok(Some(_)) = vehicle.poll() {
                return Ok(Some(vehicle));
            }
            if Instant::now() > deadline {
                bail!(EmulatorError::new("QEMU has not come to the first instruction within a minute".to_owned()));
            }
        }
    }
}

fn make(root: &Path) -> Result<Workspace> {
    host::check_files(0)?;
    std::fs::create_dir(root).map_err(|error| InputError::new(format!("{}: {error}", root.display())))?;
    Ok(Workspace::create(root.to_owned(), root)?)
}
