// SPDX-License-Identifier: MIT OR Apache-2.0
//! Execution state: the task, the exceptions above it, and the functions in each of them.
//!
//! Each file uses those above it only: [`event`], [`watermark`], [`activation`], [`device`], [`fault`],
//! [`open_zones`], [`context`], [`exchange`], [`watched`], [`span`], [`tree`], [`arrival`], [`exception`], [`reason`],
//! [`task`], [`poll`], [`waiting`], [`zone`].

pub mod activation;
pub mod arrival;
pub mod context;
pub mod descent;
pub mod device;
pub mod event;
pub mod exception;
pub mod exchange;
pub mod fault;
pub mod open_zones;
pub mod poll;
pub mod reason;
pub mod span;
pub mod task;
pub mod tree;
pub mod waiting;
pub mod watched;
pub mod watermark;
pub mod zone;

use wire::request::Request;
use wire::timeline::{What, Why};

use crate::code::Code;
use crate::guest::{Guest, Vcpu};
use crate::ledger::{Counters, Ledger};
use context::{Core, Exchanged};
use device::DevicePoll;
use poll::Polls;
use span::{Betweens, Spans};
use task::Tasks;
use tree::Tree;
use waiting::Waiting;
use zone::Zones;

/// State of everything that is followed.
pub struct Follow {
    /// State of each vCPU.
    pub cores: Vec<Core>,
    /// The exact call tree, when asked for.
    pub tree: Option<Tree>,
    /// Tasks of the firmware's kernel; None: no kernel is known.
    pub tasks: Option<Tasks>,
    /// Tasks of the firmware's executors, if it has any.
    pub polls: Option<Polls>,
    /// Spans that `--span` asked for.
    pub betweens: Betweens,
    /// Zones, phases and marks of the firmware, if it has any.
    pub zones: Option<Zones>,
    /// Calls that belong to waiting, if the image has any.
    pub waiting: Option<Waiting>,
    /// Whether each context's instructions are counted as they execute.
    pub has_contexts: bool,
    /// Whether the kernel has functions that exceptions lead to in place of the code that asked for them.
    has_exchanges: bool,
    /// Masked interrupts, if the timeline needs them and the tree does not follow them.
    masks: Option<Spans>,
    /// The device that is polled over and over.
    pub device: DevicePoll,
}

impl Follow {
    /// Initial state of `vcpus` vCPUs.
    pub fn new(request: &Request, vcpus: u32, ledger: &mut Ledger<impl Counters>) -> Follow {
        let measure = request.measure();
        let has_timeline = measure.is_some_and(|measure| measure.timeline.is_some());
        let has_contexts = has_timeline
            || measure.is_some_and(|measure| {
                !measure.events.is_empty()
                    || !measure.zone_calls.is_empty()
                    || !measure.waiting_calls.is_empty()
                    || measure.slice_insns.is_some()
                    || measure.has_cycles
                    || request.core.is_some()
            });
        let tree = Tree::new(request, vcpus);
        let kernel = measure.and_then(|measure| measure.kernel.as_ref());
        Follow {
            masks: (has_timeline && tree.is_none()).then(|| Spans::uncounted(vcpus)),
            cores: (0..vcpus).map(|vcpu| Core::new(vcpu, has_contexts)).collect(),
            tree,
            tasks: Tasks::new(request, vcpus),
            polls: Polls::new(request, vcpus),
            betweens: Betweens::new(measure.map_or(&[], |measure| &measure.spans), vcpus, ledger),
            zones: Zones::new(request),
            waiting: Waiting::new(request),
            has_contexts,
            has_exchanges: kernel
                .is_some_and(|kernel| kernel.exchanges.iter().any(|function| function.is_by_exception)),
            device: DevicePoll::default(),
        }
    }

    /// Whether anything asks which exceptions are active; `has_stacks`: stacks cross into what they interrupted. Calls by
    /// exception are counted whatever else is.
    pub fn has_exceptions(&self, has_stacks: bool) -> bool {
        has_stacks || self.tree.is_some() || self.has_contexts || self.has_exchanges || self.polls.is_some()
    }

    /// Tracker of masked interrupts, if there is one.
    pub fn masks(&mut self) -> Option<&mut Spans> {
        self.tree.as_mut().map(|tree| &mut tree.spans).or(self.masks.as_mut())
    }

    /// The tracker without the tree, which notices handlers by itself.
    pub fn masks_alone(&mut self) -> Option<&mut Spans> {
        self.masks.as_mut()
    }

    /// Notes a store to the interrupt controller that asks for a switch of tasks, or cancels it.
    pub fn pend_switch(&mut self, vcpu: u32, is_pending: bool) {
        if let Some(tasks) = &mut self.tasks {
            tasks.pend(&self.cores[vcpu as usize], is_pending);
        }
    }

    /// Writes the tasks, exceptions and zones that are under way as the timeline begins.
    pub fn open_timeline(&self, ledger: &mut Ledger<impl Counters>) {
        for core in &self.cores {
            if core.task != 0 {
                ledger.happened(core.vcpu, What::Switched { task: core.task, why: Why::First });
            }
            for active in &core.exceptions {
                ledger.happened(core.vcpu, What::Entered { number: active.number });
            }
        }
        if let Some(tasks) = &self.tasks {
            tasks.open_timeline(ledger);
        }
    }

    /// Removes exceptions of a vCPU that have returned unseen before the instruction at `pc`.
    pub fn leave_exceptions(
        &mut self,
        vcpu: u32,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &mut Ledger<impl Counters>,
    ) {
        let core = &mut self.cores[vcpu as usize];
        let before = core.exceptions.len();
        exception::leave(core, self.tree.as_mut(), pc, guest, code, ledger);
        if core.exceptions.len() < before {
            self.look_at_tasks(vcpu, guest, ledger);
        }
    }

    /// Looks which tasks have become ready or not, after a handler has begun or ended: most are made ready by handlers.
    pub fn look_at_tasks(&mut self, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        if let Some(tasks) = &mut self.tasks {
            tasks.look(vcpu, guest, ledger);
        }
    }

    /// Handles the start of a function that exchanges the task's stack.
    pub fn begin_exchange(
        &mut self,
        vcpu: u32,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &mut Ledger<impl Counters>,
    ) -> Option<Exchanged> {
        self.leave_exceptions(vcpu, pc, guest, code, ledger);
        exchange::begin(&mut self.cores[vcpu as usize], pc, guest, code)
    }

    /// Whether exceptions may be left by an ordinary jump: the processor has no other return, or the kernel goes on with
    /// tasks so.
    pub fn is_left_by_jumps(&self, guest: &Guest<impl Vcpu>) -> bool {
        guest.facts.returns_by_jump || self.tasks.as_ref().is_some_and(Tasks::leave_by_jumps)
    }

    /// Checks whether a vCPU's task was switched unseen.
    pub fn check_task(&mut self, vcpu: u32, guest: &mut Guest<impl Vcpu>, ledger: &mut Ledger<impl Counters>) {
        if let Some(tasks) = &mut self.tasks {
            tasks.check(&mut self.cores[vcpu as usize], self.tree.as_mut(), guest, ledger);
        }
    }

    /// Handles the start of a polled task's function.
    pub fn begin_poll(
        &mut self,
        vcpu: u32,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &mut Ledger<impl Counters>,
    ) {
        self.leave_exceptions(vcpu, pc, guest, code, ledger);
        event::stir(vcpu, false, ledger);
        if let Some(polls) = &mut self.polls {
            polls.begin(&mut self.cores[vcpu as usize], self.tree.as_mut(), pc, guest, ledger);
        }
    }

    /// Handles an address that such a function may have returned to.
    pub fn end_poll(
        &mut self,
        vcpu: u32,
        pc: u64,
        guest: &mut Guest<impl Vcpu>,
        code: &mut Code,
        ledger: &mut Ledger<impl Counters>,
    ) {
        self.leave_exceptions(vcpu, pc, guest, code, ledger);
        if let Some(polls) = &mut self.polls {
            polls.end(&mut self.cores[vcpu as usize], self.tree.as_mut(), pc, guest, ledger);
        }
    }

    /// Handles an instruction that would wake a vCPU from a `wfe`, before it executes.
    pub fn wake(&self, vcpu: u32, ledger: &Ledger<impl Counters>) {
        let task = self.cores[vcpu as usize].task;
        let idles = self.tasks.as_ref().is_some_and(|tasks| tasks.is_idle(task));
        event::wake(vcpu, idles, ledger);
    }

    /// A vCPU's task, node in the exact tree, and innermost zone, for a sample; 0: none.
    pub fn place(&mut self, vcpu: u32, ledger: &mut Ledger<impl Counters>) -> (u32, u32, u32) {
        let core = &self.cores[vcpu as usize];
        (core.task, self.tree.as_mut().map_or(0, |tree| tree.node(core, ledger)), core.zone_path())
    }

    /// Counts the instructions so far for the contexts that executed them.
    pub fn advance(&mut self, ledger: &mut Ledger<impl Counters>) {
        self.cores.iter_mut().for_each(|core| core.advance(ledger));
    }

    /// Opens the window: everything under way began before it.
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
