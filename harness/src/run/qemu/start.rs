// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's start: QEMU holds the machine until harness has asked for the machine's memory and written it for the
//! plugin.

use std::ops::Range;
use std::{fs, io};

use serde_json::{Value, json};

use crate::error::EmulatorError;
use crate::run::qemu::memory::{self, Unread};
use crate::run::qemu::process::Process;
use crate::run::request::plan::Plan;
use crate::run::store::workspace::Workspace;
use crate::text::printable::printable;

/// Last command sent to QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Prints the memory tree.
    Tell,
    /// Starts the machine.
    Go,
    /// No further command: the machine runs.
    Done,
}

/// Progress of a machine's start.
#[derive(Debug)]
pub struct Start {
    step: Step,
    memory: Vec<Range<u64>>,
    /// Memory tree that QEMU printed.
    tree: String,
    unread: Option<Unread>,
    /// Whether the machine stays held, because the user wants to start it from a debugger.
    is_held: bool,
}

impl Start {
    /// Asks QEMU for the memory tree; QEMU answers when it has made the machine.
    pub fn begin(plan: &Plan<'_>, process: &mut Process) -> Start {
        process.send("human-monitor-command", &json!({"command-line": memory::QUESTION}));
        let is_held = plan.options.qemu_args.iter().any(|argument| argument == "-S" || argument == "--S");
        Start { step: Step::Tell, memory: plan.memory(), tree: String::new(), unread: None, is_held }
    }

    /// Continues when QEMU has answered.
    ///
    /// # Errors
    /// [`EmulatorError`] when the machine cannot be started, [`InputError`](crate::error::InputError) when its memory
    /// map cannot be written.
    pub fn proceed(&mut self, process: &mut Process, workspace: &Workspace) -> anyhow::Result<()> {
        let Some(answer) = process.answer() else { return Ok(()) };
        match self.step {
            Step::Tell => {
                self.learn(answer);
                self.write(workspace).map_err(|error| workspace.unwritable(&error))?;
                self.step = if self.is_held { Step::Done } else { Step::Go };
                if self.step == Step::Go {
                    process.send("cont", &json!({}));
                }
            }
            Step::Go => {
                answer.map_err(|why| {
                    EmulatorError::new(format!("QEMU does not start the machine; it says: {}", printable(&why)))
                })?;
                self.step = Step::Done;
            }
            Step::Done => {}
        }
        Ok(())
    }

    fn learn(&mut self, answer: Result<Value, String>) {
        let tree = answer.map_err(Unread::Refused);
        let tree = tree.map(|tree| tree.as_str().unwrap_or_default().to_owned());
        self.tree = tree.clone().unwrap_or_default();
        match tree.and_then(|tree| memory::read(&tree)) {
            Ok(memory) => self.memory = memory,
            Err(unread) => self.unread = Some(unread),
        }
    }

    /// Writes the file that the plugin reads.
    fn write(&self, workspace: &Workspace) -> io::Result<()> {
        if self.unread.is_some() {
            // The plugin then uses the machine table's memory, which the request has.
            return Ok(());
        }
        let mut bytes = Vec::new();
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        wire::memory::put(&mut bytes, &self.memory).map_err(invalid)?;
        fs::write(workspace.records().join(wire::memory::FILE_NAME), bytes)
    }

    /// QEMU's memory tree; empty if QEMU gave none.
    pub fn tree(&self) -> &str {
        &self.tree
    }

    /// Reason why the machine's memory is unknown; None: it is known.
    pub fn unread(&self) -> Option<&Unread> {
        self.unread.as_ref()
    }

    /// Whether all of a range is memory.
    pub fn is_memory(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let Some(region) = self.memory.iter().find(|region| region.contains(&at)) else { return false };
            at = region.end;
        }
        true
    }
}
