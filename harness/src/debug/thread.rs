//! Threads, as a debugger lists them: a kernel's tasks, or the processor alone. The server shows them; where they come
//! from is a kernel's matter and not its own.

use std::num::NonZeroUsize;
use std::ops::Range;

use anyhow::Result;

use crate::debug::travel::{Travel, Vcpus};

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number, the same wherever the run is held.
    pub id: NonZeroUsize,
    /// Its name.
    pub name: String,
    /// What it does: `running`, `ready`, `blocked`.
    pub state: String,
    /// Registers by QEMU's names, as they were saved when it was switched out; those that are not here cannot be known.
    /// None: they are the processor's.
    pub saved: Option<Vec<(String, Vec<u8>)>>,
}

/// What lists the threads of a run.
pub trait Threads {
    /// All of them where the run is held. The processor's is the first, and there is one at least.
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<Thread>>;

    /// Memory that is written when another thread becomes the processor's. With it, steps within a thread pass over the
    /// time that others take; without, they end in whichever thread comes next.
    fn current(&self) -> Option<Range<u64>> {
        None
    }
}

/// The processors as the only threads: firmware without a kernel, or with one that is not known. Those whose turn it is not
/// have registers that cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl Processor {
    /// It, as a thread.
    pub fn thread() -> Thread {
        Thread { id: NonZeroUsize::MIN, name: "cpu 0".to_owned(), state: "running".to_owned(), saved: None }
    }
}

impl Threads for Processor {
    fn list(&mut self, travel: &mut dyn Travel) -> Result<Vec<Thread>> {
        let Vcpus { executing, insns } = travel.vcpus()?;
        let others = (0..insns.len()).filter(|&vcpu| vcpu != executing);
        let threads = [executing].into_iter().chain(others).map(|vcpu| {
            let is_executing = vcpu == executing;
            Thread {
                id: NonZeroUsize::MIN.saturating_add(vcpu),
                name: format!("cpu {vcpu}"),
                state: if is_executing { "running" } else { "not its turn" }.to_owned(),
                saved: (!is_executing).then(Vec::new),
            }
        });
        Ok(threads.collect())
    }
}
