//! What executes: which task, which exceptions above it, which functions in each of them.
//!
//! Each file uses those above it only: [`event`], [`watermark`], [`activation`], [`device`], [`fault`],
//! [`nest`], [`context`], [`watched`], [`span`], [`tree`], [`arrival`], [`exception`], [`reason`], [`task`], [`poll`], [`zone`].

pub mod activation;
pub mod arrival;
pub mod context;
pub mod device;
pub mod event;
pub mod exception;
pub mod fault;
pub mod nest;
pub mod poll;
pub mod reason;
pub mod span;
pub mod task;
pub mod tree;
pub mod watched;
pub mod watermark;
pub mod zone;

use wire::request::Request;
use wire::timeline::{What, Why};

use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use context::Core;
use device::DevicePoll;
use poll::Polls;
use span::{Betweens, Spans};
use task::Tasks;
use tree::Tree;
use zone::Zones;

/// All that is followed.
pub struct Follow {
    /// By vCPU.
    pub cores: Vec<Core>,
    /// The exact call tree, when asked for.
    pub tree: Option<Tree>,
    /// The firmware's tasks, where its kernel is known.
    pub tasks: Option<Tasks>,
    /// The tasks of its executors, where it has some.
    pub polls: Option<Polls>,
    /// The spans that were asked for.
    pub betweens: Betweens,
    /// What the firmware names itself, where it does.
    pub zones: Option<Zones>,
    /// Each context's instructions are counted as they execute.
    pub has_contexts: bool,
    /// Masked interrupts, where the timeline has them and the tree does not follow them.
    masks: Option<Spans>,
    /// The device that is asked over and over.
    pub device: DevicePoll,
}

impl Follow {
    /// Nothing has executed yet, on so many vCPUs.
    pub fn new(request: &Request, vcpus: u32, ledger: &mut Ledger<impl Counters>) -> Follow {
        let has_timeline = request.timeline.is_some();
        let has_contexts = !request.events.is_empty() || request.slice_insns.is_some() || has_timeline;
        Follow {
            cores: (0..vcpus).map(|vcpu| Core::new(vcpu, has_contexts)).collect(),
            tree: Tree::new(request, vcpus),
            tasks: Tasks::new(request, vcpus),
            polls: Polls::new(request, vcpus),
            betweens: Betweens::new(request, vcpus, ledger),
            zones: Zones::new(request),
            has_contexts,
            masks: (has_timeline && !request.is_exact).then(|| Spans::uncounted(vcpus)),
            device: DevicePoll::default(),
        }
    }

    /// Whether anything asks which exceptions are active; `has_stacks`: stacks cross into what they interrupted.
    pub fn has_exceptions(&self, has_stacks: bool) -> bool {
        has_stacks || self.tree.is_some() || self.has_contexts || self.polls.is_some()
    }

    /// What follows masked interrupts, where something does.
    pub fn masks(&mut self) -> Option<&mut Spans> {
        self.tree.as_mut().map(|tree| &mut tree.spans).or(self.masks.as_mut())
    }

    /// The same where that is not the tree, which sees handlers begin and end by itself.
    pub fn masks_alone(&mut self) -> Option<&mut Spans> {
        self.masks.as_mut()
    }

    /// A switch of tasks is asked for, or no more, by a store to the interrupt controller.
    pub fn pend_switch(&mut self, vcpu: u32, is_pending: bool) {
        if let Some(tasks) = &mut self.tasks {
            tasks.pend(&self.cores[vcpu as usize], is_pending);
        }
    }

    /// What is under way as the timeline begins.
    pub fn open_timeline(&self, ledger: &mut Ledger<impl Counters>) {
        for core in &self.cores {
            if core.task != 0 {
                ledger.happened(core.vcpu, What::Switched { task: core.task, why: Why::First });
            }
            for active in &core.exceptions {
                ledger.happened(core.vcpu, What::Entered { number: active.number });
            }
        }
    }

    /// Forgets the exceptions of a vCPU that have returned unseen.
    pub fn leave_exceptions(&mut self, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        exception::leave(&mut self.cores[vcpu as usize], self.tree.as_mut(), guest, ledger);
    }

    /// Looks whether the task of a vCPU has been switched unseen.
    pub fn check_task(&mut self, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        if let Some(tasks) = &mut self.tasks {
            tasks.check(&mut self.cores[vcpu as usize], self.tree.as_mut(), guest, ledger);
        }
    }

    /// At the start of a task's function.
    pub fn begin_poll(
        &mut self,
        vcpu: u32,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        ledger: &mut Ledger<impl Counters>,
    ) {
        self.leave_exceptions(vcpu, guest, ledger);
        event::stir(vcpu, false, ledger);
        if let Some(polls) = &mut self.polls {
            polls.begin(&mut self.cores[vcpu as usize], self.tree.as_mut(), pc, guest, ledger);
        }
    }

    /// Where such a function may have returned to.
    pub fn end_poll(&mut self, vcpu: u32, pc: u64, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        self.leave_exceptions(vcpu, guest, ledger);
        if let Some(polls) = &mut self.polls {
            polls.end(&mut self.cores[vcpu as usize], self.tree.as_mut(), pc, guest, ledger);
        }
    }

    /// What would wake a vCPU from a `wfe` is about to execute.
    pub fn wake(&self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        let task = self.cores[vcpu as usize].task;
        let idles = self.tasks.as_ref().is_some_and(|tasks| tasks.is_idle(task));
        event::wake(vcpu, idles, ledger);
    }

    /// The task that a vCPU runs, its place in the exact tree, and its innermost zone, for a sample; 0: none.
    pub fn place(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) -> (u32, u32, u32) {
        let core = &self.cores[vcpu as usize];
        (core.task, self.tree.as_mut().map_or(0, |tree| tree.node(core, ledger)), core.zone_path())
    }

    /// Counts what was executed so far for the contexts that executed it.
    pub fn advance(&mut self, ledger: &mut Ledger<impl Counters>) {
        self.cores.iter_mut().for_each(|core| core.advance(ledger));
    }

    /// The window opens: what is under way began before it.
    pub fn restart(&mut self, ledger: &Ledger<impl Counters>) {
        for core in &mut self.cores {
            core.restart();
            event::restart(core.vcpu, ledger);
        }
        if let Some(tree) = &mut self.tree {
            tree.restart();
        }
        if let Some(masks) = &mut self.masks {
            masks.restart();
        }
        if let Some(tasks) = &mut self.tasks {
            tasks.restart(ledger);
        }
        if let Some(polls) = &mut self.polls {
            polls.restart(ledger);
        }
        self.betweens.restart();
        self.device.restart();
    }
}
