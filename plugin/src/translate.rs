//! Translation: which inline counters go where. Runs once per translated block; what it leaves in
//! the generated code is all that runs per instruction.

use decode::{Flow, decode};
use wire::counters::{ALARM, CLOCK, DUE, EXCEPTIONS, INPUT, TRANSFER};
use wire::definition::{Transfer, TransferKind};

use crate::clock::{OnBlock, OnBound, OnSegment, OracleCount, OracleSample, insn_id};
use crate::follow::exception::{OnException, OnTrapReturn};
use crate::follow::span::{OnFrom, OnMask, OnMasked, OnUntil};
use crate::follow::task::{OnDelete, OnSwitch};
use crate::follow::tree::{OnCall, OnCrossing, OnEntry, OnExceptionReturn, OnJump, OnReturn, OnStackMove};
use crate::hooks::end::OnStore;
use crate::input::OnInput;
use crate::qemu::{Block as QemuBlock, Insn, TranslateCallback, TranslateHook};
use crate::semihosting::OnSemihosting;
use crate::stack::OnForgetful;
use crate::state::{self, Block, Segment, State};
use crate::transfer::{OnRegisterJump, OnTransfer, Site, SiteKind};
use crate::wait::OnWait;

/// What is known of one instruction of a block before anything is registered.
struct Planned {
    pc: u64,
    size: u8,
    /// Nothing after this instruction is certain to start.
    ends_segment: bool,
    /// A new segment must start here: the window opens or closes before this instruction.
    bound: bool,
    transfer: Option<Transfer>,
    site: Option<Site>,
    breakpoint: bool,
    wait: bool,
    trap_return: bool,
    /// Control may go elsewhere than to the next instruction, and not by a call.
    leaves_function: bool,
    jumps_anywhere: bool,
    /// Its return address, when it may call what is no known function.
    calling: Option<u64>,
    /// The address in another function's middle that it may jump to.
    crossing: Option<u64>,
    moves_sp: bool,
    changes_mask: bool,
    /// A `--span` begins here; one ends here.
    between: (bool, bool),
    /// It may be a store; branches, which end most blocks, are not.
    may_store: bool,
}

/// QEMU has translated a block.
pub(crate) struct Translate;

impl TranslateHook for Translate {
    const CALL: TranslateCallback = |block| state::lock().translate(block);
}

impl State {
    fn translate(&mut self, qemu_block: &QemuBlock) {
        let plan = self.plan(qemu_block);
        let Some(first) = plan.first() else { return };
        let mut segments = Vec::new();
        let (oracle, isa) = (self.args.is_oracle, self.args.isa);
        let inline = self.counts_inline();
        for part in plan.chunk_by(|insn, next| !insn.ends_segment && !next.bound && !oracle) {
            let segment = Segment {
                pc: part[0].pc,
                sizes: part.iter().map(|insn| insn.size).collect(),
                transfer: part.last().and_then(|insn| insn.transfer),
            };
            segments.push((self.segment(segment), part.len() as u32));
        }
        let block = Block {
            pc: first.pc,
            sizes: plan.iter().map(|insn| insn.size).collect(),
            segments: segments.clone().into(),
        };
        let block = self.blocks.number(block);
        let clock = self.scoreboard.cell(self.records.address(CLOCK));
        if self.may_be_handler(first.pc) {
            // Before a sample in this block is thought of.
            qemu_block.call::<OnException>(insn_id(block, 0));
        }
        if inline && !oracle {
            qemu_block.call_when_at_least::<OnBlock>(clock, DUE - plan.len() as u64, block);
        }
        if self.input.is_some() {
            // After the events, one of which may have asked for it.
            let input = self.scoreboard.cell(self.records.address(INPUT));
            if inline {
                qemu_block.call_when_at_least::<OnInput>(input, 1, block);
            } else {
                qemu_block.call::<OnInput>(block);
            }
        }
        let mut segments = segments.into_iter();
        let mut segment_end = 0;
        for (index, (insn, planned)) in qemu_block.insns().zip(&plan).enumerate() {
            self.follow(&insn, planned, block, index, index.checked_sub(1).and_then(|before| plan.get(before)));
            if planned.between.1 {
                insn.call::<OnUntil>(insn_id(block, index));
            }
            // Bounds come first, so that what they clear or read does not include this instruction.
            if self.args.from == Some(planned.pc) || self.args.until == Some(planned.pc) {
                insn.call::<OnBound>(insn_id(block, index));
            }
            if planned.changes_mask {
                insn.call::<OnMask>(planned.pc as usize);
            }
            if planned.between.0 {
                insn.call::<OnFrom>(insn_id(block, index));
            }
            if index == segment_end
                && let Some((slot, length)) = segments.next()
            {
                segment_end += length as usize;
                match (inline, oracle) {
                    (true, false) => {
                        insn.add(clock, length.into());
                        insn.add(self.scoreboard.cell(self.records.address(slot)), 1);
                    }
                    (true, true) => {
                        insn.add(clock, 1);
                        insn.call::<OracleCount>(slot as usize);
                        insn.call_when_at_least::<OracleSample>(clock, DUE, insn_id(block, index));
                    }
                    (false, _) => insn.call::<OnSegment>(insn_id(block, index)),
                }
            }
            if let Some(site) = &planned.site
                && !oracle
            {
                let number = self.sites.number(site);
                if inline {
                    insn.store(self.scoreboard.cell(self.records.address(TRANSFER)), number);
                    insn.add(clock, ALARM);
                    if let (SiteKind::Register { reg, call: false, .. }, false) = (site.kind, isa.is_riscv()) {
                        insn.call::<OnRegisterJump>(reg.into());
                    }
                } else {
                    insn.call::<OnTransfer>(number as usize);
                }
            }
            if planned.breakpoint {
                insn.call::<OnSemihosting>(insn_id(block, index));
            }
            if planned.trap_return && (self.unwinder.is_some() || self.tree.is_some()) {
                insn.call::<OnTrapReturn>(0);
            }
            if planned.wait {
                insn.call::<OnWait>(0);
            }
            // Under icount QEMU executes a device access as its block's last instruction, so a store
            // that ends the run (test finisher, reset request) is never anywhere else.
            if index + 1 == plan.len() && planned.may_store {
                insn.call_after_store::<OnStore>(insn_id(block, index));
            }
        }
    }

    /// Registers what stacks, tasks and the call tree need to know of an instruction, before its counters.
    fn follow(&mut self, insn: &Insn<'_>, planned: &Planned, block: usize, index: usize, before: Option<&Planned>) {
        let (pc, id) = (planned.pc, insn_id(block, index));
        if self.tree.is_some() {
            if before.is_some_and(|before| before.moves_sp) {
                insn.call::<OnStackMove>(0);
            }
            if before.is_some_and(|before| before.changes_mask) {
                insn.call::<OnMasked>(0);
            }
            if self.is_return_address(pc) {
                insn.call::<OnReturn>(id);
            }
            if self.is_entry(pc) {
                insn.call::<OnEntry>(id);
            }
            if let Some(target) = planned.crossing {
                insn.call::<OnCrossing>(target as usize);
            }
            if planned.jumps_anywhere {
                insn.call::<OnJump>(0);
            }
            if let Some(return_addr) = planned.calling {
                insn.call::<OnCall>(return_addr as usize);
            }
            if planned.leaves_function && !self.args.isa.is_riscv() {
                let exceptions = self.scoreboard.cell(self.records.address(EXCEPTIONS));
                insn.call_when_at_least::<OnExceptionReturn>(exceptions, 1, 0);
            }
        }
        if self.is_forgetful(pc) {
            insn.call::<OnForgetful>(id);
        }
        if self.args.kernel.as_ref().is_some_and(|kernel| kernel.delete == Some(pc)) {
            insn.call::<OnDelete>(0);
        }
        if planned.may_store
            && self.args.kernel.iter().flat_map(|kernel| &kernel.switchers).any(|code| code.contains(&pc))
        {
            insn.call_after_store::<OnSwitch>(id);
        }
    }

    fn plan(&mut self, block: &QemuBlock) -> Vec<Planned> {
        let (isa, exact) = (self.args.isa, self.args.is_exact);
        let mut plan: Vec<Planned> = Vec::with_capacity(block.insns().len());
        let mut conditional =
            block.insns().next().and_then(|insn| self.it_blocks.get(&insn.pc()).copied()).unwrap_or(0);
        let mut lr_was_set = false;
        let mut upper: Option<(u8, u64)> = None;
        for insn in block.insns() {
            let pc = insn.pc();
            let (bytes, len) = insn.bytes();
            let bytes = &bytes[..len];
            let decoded = decode(isa, pc, bytes);
            let mut flow = decoded.flow;
            // auipc + jalr is how RISC-V calls far: together they say where it goes.
            if let Some((register, value)) = upper.take() {
                let joined = |offset: i32| isa.wrap(value.wrapping_add_signed(offset.into()) & !1);
                flow = match flow {
                    Flow::IndirectCall { reg, offset, .. } if reg == register => {
                        Flow::Call { target: joined(offset) }
                    }
                    Flow::IndirectJump { reg, offset } if reg == register => Flow::Jump { target: joined(offset) },
                    other => other,
                };
            }
            upper = decode::auipc(isa, pc, bytes);
            let sets_lr = lr_was_set;
            lr_was_set |= decode::sets_lr(isa, bytes);
            let next = pc + u64::from(decoded.len_bytes);
            let (transfer, site) = self.transfer(pc, next, flow, conditional > 0);
            let between = self.between_bounds(pc);
            if conditional > 0 {
                self.it_blocks.insert(pc, conditional);
                conditional -= 1;
            } else if let Flow::It { count } = flow {
                conditional = count;
            }
            plan.push(Planned {
                pc,
                size: decoded.len_bytes,
                ends_segment: decoded.may_leave || !matches!(decoded.flow, Flow::Next | Flow::It { .. }),
                bound: self.args.from == Some(pc)
                    || self.args.until == Some(pc)
                    || between != (false, false)
                    || (exact && self.is_entry(pc)),
                transfer,
                site,
                breakpoint: decode::is_breakpoint(isa, bytes),
                wait: decode::is_wfi(isa, bytes),
                trap_return: decode::is_trap_return(isa, bytes),
                leaves_function: matches!(
                    decoded.flow,
                    Flow::Return | Flow::IndirectJump { .. } | Flow::ComputedJump
                ),
                jumps_anywhere: exact
                    && match flow {
                        Flow::IndirectJump { .. } | Flow::ComputedJump => true,
                        // gcc's helpers for switches return to another place than they were called from.
                        Flow::Return => sets_lr,
                        _ => false,
                    },
                calling: match flow {
                    Flow::Call { target } if !self.is_entry(target) => Some(next),
                    Flow::IndirectCall { .. } => Some(next),
                    _ => None,
                }
                .filter(|_| exact),
                crossing: match flow {
                    Flow::Jump { target } | Flow::Branch { target }
                        if exact && !self.is_entry(target) && self.function_of(target) != self.function_of(pc) =>
                    {
                        Some(target)
                    }
                    _ => None,
                },
                moves_sp: exact && decode::moves_sp(isa, bytes),
                changes_mask: exact && decode::changes_mask(isa, bytes),
                between,
                may_store: decoded.may_leave && decoded.flow == Flow::Next,
            });
        }
        if let (Some(last), 1..) = (plan.last(), conditional) {
            self.it_blocks.insert(last.pc + u64::from(last.size), conditional);
        }
        plan
    }

    /// Sorts a transfer of control: its executions are all it takes (Transfer), or the next block
    /// must say where it went (Site), or it enters no function.
    fn transfer(&self, pc: u64, next: u64, flow: Flow, conditional: bool) -> (Option<Transfer>, Option<Site>) {
        let fixed = |kind, target| (Some(Transfer { kind, target }), None);
        let site = |kind| (None, Some(Site { pc, next, function: self.function_of(pc), kind }));
        match flow {
            Flow::Next | Flow::It { .. } | Flow::Return => (None, None),
            Flow::Call { target } if conditional => site(SiteKind::Branch { target, call: true }),
            Flow::Call { target } => fixed(TransferKind::Call, target),
            Flow::Jump { target } | Flow::Branch { target } if !self.is_entry(target) => (None, None),
            Flow::Jump { target } if !conditional => {
                if self.function_of(pc) == Some(target) {
                    fixed(TransferKind::Jump, target)
                } else {
                    site(SiteKind::Jump { target })
                }
            }
            Flow::Branch { target } if self.loops.binary_search(&pc).is_ok() => fixed(TransferKind::Branch, target),
            Flow::Jump { target } | Flow::Branch { target } => site(SiteKind::Branch { target, call: false }),
            Flow::IndirectCall { clobbered: true, .. } => site(SiteKind::Unknown { call: true, conditional }),
            Flow::IndirectCall { reg, offset, .. } => {
                site(SiteKind::Register { reg, offset, call: true, conditional })
            }
            Flow::IndirectJump { reg, offset } => site(SiteKind::Register { reg, offset, call: false, conditional }),
            Flow::ComputedJump => site(SiteKind::Unknown { call: false, conditional }),
        }
    }
}
