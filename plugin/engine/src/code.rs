// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts from the image about a code address: its function, its unwind rule, and whether a call ends before it. Stack
//! walks ask for the same few addresses again and again, so the answers are kept.

use std::ops::Range;

use decode::Flow;
use wire::request::{Exchange, Request};
use wire::unwind::{Base, Row, Rule, rule_at};

use crate::guest::{Guest, Vcpu};
use crate::recent::Recent;

/// Number of kept places. If the stacks of a firmware have more places, searches are repeated.
const KEPT_PLACES: usize = 4096;

/// Number of addresses whose function is kept.
const KEPT_FUNCTIONS: usize = 4096;

/// Facts about a code address: the address of an instruction, or of a call's last byte, which stands for the call.
#[derive(Clone, Copy, Debug)]
pub struct CodePoint {
    /// Entry of its function.
    pub function: Option<u64>,
    /// Rule that finds the function's caller from this address.
    pub rule: Option<Rule>,
    /// Whether the return address is in no register and in no memory any more: the function never returns, or calls one
    /// here that never does, and does not keep it.
    pub is_forgetful: bool,
    /// Whether a call ends at this byte.
    pub ends_call: bool,
}

/// The image's code.
pub struct Code {
    /// The firmware's functions, sorted.
    functions: Vec<Range<u64>>,
    /// Functions of recent addresses: `--exact` asks at every call and return.
    recent: Recent<u64, Option<u64>>,
    /// Sorted addresses of branches whose number of jumps can be computed from other counts.
    loops: Vec<u64>,
    /// Sorted entries that no instruction names as its target.
    pointed: Vec<u64>,
    /// Sorted entries of functions that never return and so do not keep their return address.
    forgetful: Vec<u64>,
    /// Sorted calls that never return, of functions that do not keep their return address, each from the last instruction
    /// at which the register has it.
    forgetting: Vec<Range<u64>>,
    rows: Vec<Row>,
    /// Entries of functions in which tasks begin.
    task_begins: Vec<u64>,
    /// Entries of functions in which some tasks begin, and which others call.
    called_begins: Vec<u64>,
    /// Entry of the function to which a task's first function returns.
    task_exit: Option<u64>,
    /// Functions that exchange the task's stack under themselves.
    exchanges: Vec<Exchange>,
    /// Entry of the firmware's first function.
    pub first_function: Option<u64>,
    /// Recent places, by their addresses.
    places: Recent<u64, CodePoint>,
}

impl Code {
    /// The code that the request describes; no code if the request measures nothing.
    pub fn new(request: &Request) -> Code {
        let measure = request.measure().cloned().unwrap_or_default();
        let has_stacks = measure.max_depth.is_some();
        let mut code = Code {
            functions: measure.functions,
            recent: Recent::new(KEPT_FUNCTIONS),
            loops: measure.loops,
            pointed: measure.pointed,
            forgetful: if has_stacks { measure.forgetful } else { Vec::new() },
            forgetting: if has_stacks { measure.forgetting } else { Vec::new() },
            // Needed without stacks, too: an arc's return address may have to be found by unwinding.
            rows: measure.unwind,
            task_exit: measure.kernel.as_ref().and_then(|kernel| kernel.exit),
            called_begins: measure.kernel.as_ref().map(|kernel| kernel.called_begins.clone()).unwrap_or_default(),
            exchanges: measure.kernel.as_ref().map(|kernel| kernel.exchanges.clone()).unwrap_or_default(),
            task_begins: measure.kernel.map(|kernel| kernel.begins).unwrap_or_default(),
            first_function: None,
            places: Recent::new(KEPT_PLACES),
        };
        code.first_function = request.entry.map(|entry| code.function_of(entry).unwrap_or(entry));
        code
    }

    /// Whether nothing calls the function that starts at an address: it is the firmware's first function, or a
    /// function in which tasks begin.
    pub fn is_outermost(&self, entry: u64) -> bool {
        self.first_function == Some(entry) || self.begins_task(entry)
    }

    /// Whether tasks begin in the function that starts at an address.
    pub fn begins_task(&self, entry: u64) -> bool {
        self.task_begins.contains(&entry)
    }

    /// Whether some tasks begin in the function that starts at an address, and others call it.
    pub fn may_begin_task(&self, entry: u64) -> bool {
        self.called_begins.contains(&entry)
    }

    /// Whether tasks end in the function that starts at an address. They return into it, so that nothing is its caller
    /// unless it has called it.
    pub fn ends_task(&self, entry: u64) -> bool {
        self.task_exit == Some(entry)
    }

    /// Whether the call before a return address is a direct one of the function that starts at `entry`.
    pub fn is_call_to(&self, return_addr: u64, entry: u64, guest: &mut Guest<impl Vcpu>) -> bool {
        target_before(return_addr, guest) == Some(entry)
    }

    /// The function that starts at an address, if it exchanges the task's stack under itself.
    pub fn exchange(&self, entry: u64) -> Option<Exchange> {
        self.exchanges.iter().find(|exchange| exchange.entry == entry).copied()
    }

    /// Whether the functions in which the kernel's tasks begin are known.
    pub fn knows_task_begins(&self) -> bool {
        !self.task_begins.is_empty()
    }

    /// Whether a function of the firmware starts at an address.
    pub fn is_entry(&self, address: u64) -> bool {
        let is_known = self.function_of(address) == Some(address);
        // A function without code does not even contain its own start, so look for the start.
        is_known || self.functions.binary_search_by_key(&address, |function| function.start).is_ok()
    }

    /// Whether a function may start at an address. If no functions are known, one may start at any address.
    pub fn may_be_entry(&self, address: u64) -> bool {
        self.functions.is_empty() || self.is_entry(address)
    }

    /// Entry of the function that contains an address.
    #[inline]
    pub fn function_of(&self, address: u64) -> Option<u64> {
        self.recent.get(address >> 1, address).unwrap_or_else(|| {
            let function = self.search(address);
            self.recent.keep(address >> 1, address, function);
            function
        })
    }

    fn search(&self, address: u64) -> Option<u64> {
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = &self.functions[after.checked_sub(1)?];
        function.contains(&address).then_some(function.start)
    }

    /// Whether the addresses of functions are known.
    pub fn has_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Whether an address lies in the firmware's first function.
    pub fn is_in_first_function(&self, address: u64) -> bool {
        self.first_function.is_some() && self.function_of(address) == self.first_function
    }

    /// Whether the number of turns of the loop that this branch closes can be computed from other counts.
    pub fn is_counted_loop(&self, branch: u64) -> bool {
        self.loops.binary_search(&branch).is_ok()
    }

    /// Whether a function starts at `entry` that seems to be reached only through pointers.
    pub fn is_pointed(&self, entry: u64) -> bool {
        self.pointed.binary_search(&entry).is_ok()
    }

    /// Whether the function that starts at `entry` never returns and does not keep its return address.
    pub fn is_forgetful(&self, entry: u64) -> bool {
        self.forgetful.binary_search(&entry).is_ok()
    }

    /// Whether the return address of the instruction's function is in its register for the last time.
    pub fn is_forgetting(&self, pc: u64) -> bool {
        self.forgetting.binary_search_by_key(&pc, |call| call.start).is_ok()
    }

    /// Whether an address lies behind such an instruction, up to the end of the call.
    fn has_forgotten(&self, address: u64) -> bool {
        let after = self.forgetting.partition_point(|call| call.start < address);
        after.checked_sub(1).is_some_and(|last| address < self.forgetting[last].end)
    }

    /// Facts about an address.
    pub fn place(&mut self, address: u64, guest: &mut Guest<impl Vcpu>) -> CodePoint {
        if let Some(place) = self.places.get(address >> 1, address) {
            return place;
        }
        let function = self.function_of(address);
        let rule = rule_at(&self.rows, address).copied();
        let is_forgetful = function.is_some_and(|entry| self.is_forgetful(entry)) || self.has_forgotten(address);
        let after = address.wrapping_add(1);
        let ends_call = after & 1 == 0 && (is_call(after, 4, guest) || is_call(after, 2, guest));
        let place = CodePoint { function, rule, is_forgetful, ends_call };
        self.places.keep(address >> 1, address, place);
        place
    }

    /// Bytes of a function's frame while it is found by the stack pointer, at most; None: it has no rules for that.
    pub fn frame_bytes(&self, entry: u64) -> Option<u64> {
        let index = self.functions.binary_search_by_key(&entry, |function| function.start).ok()?;
        let end = self.functions[index].end;
        let first = self.rows.partition_point(|row| row.pc < entry);
        let rules = self.rows[first..].iter().take_while(|row| row.pc < end).filter_map(|row| row.rule);
        let sizes = rules.filter(|rule| rule.base == Base::StackPointer).map(|rule| rule.cfa_offset_bytes);
        u64::try_from(sizes.max()?).ok()
    }

    /// Whether the call before a return address went to another function than the one at `entry`, and neither the
    /// called function nor the caller's runs on into it.
    pub fn is_call_of_another(&self, return_addr: u64, entry: u64, guest: &mut Guest<impl Vcpu>) -> bool {
        let Some(target) = target_before(return_addr, guest) else { return false };
        let before = entry.checked_sub(1).and_then(|last| self.function_of(last));
        let of_before = [target, return_addr.wrapping_sub(1)].map(|address| self.function_of(address));
        let runs_on = |size| {
            let flow = flow_before(entry, size, guest);
            !matches!(flow, Some(Flow::Return | Flow::Jump { .. } | Flow::IndirectJump { .. } | Flow::ComputedJump))
        };
        let is_before = before.is_some() && of_before.contains(&before);
        self.function_of(target).is_some_and(|called| called != entry)
            && !(is_before && [4, 2].into_iter().all(runs_on))
    }

    /// Whether the instruction before an address is a call.
    pub fn is_return_address(&mut self, address: u64, guest: &mut Guest<impl Vcpu>) -> bool {
        self.place(address.wrapping_sub(1), guest).ends_call
    }
}

/// Whether the instruction of `size` bytes before `after` is a call.
fn is_call(after: u64, size: u64, guest: &mut Guest<impl Vcpu>) -> bool {
    flow_before(after, size, guest).is_some_and(Flow::is_call)
}

/// Flow of control after the instruction of `size` bytes before `after`; None: there is no such instruction.
fn flow_before(after: u64, size: u64, guest: &mut Guest<impl Vcpu>) -> Option<Flow> {
    let before = after.wrapping_sub(size);
    let bytes = guest.memory(before, size as usize)?;
    let insn = decode::decode(guest.isa, before, &bytes);
    (u64::from(insn.len_bytes) == size).then_some(insn.flow)
}

/// Target of the call before `after`; None: there is no call, or it goes through a register.
fn target_before(after: u64, guest: &mut Guest<impl Vcpu>) -> Option<u64> {
    let (size, flow) = [4, 2].into_iter().find_map(|size| {
        let flow = flow_before(after, size, guest).filter(|flow| flow.is_call())?;
        Some((size, flow))
    })?;
    let upper = after.wrapping_sub(size + 4);
    let upper = guest.memory(upper, 4).and_then(|bytes| decode::auipc(guest.isa, upper, &bytes));
    match upper.map_or(flow, |upper| flow.after_upper(guest.isa, upper)) {
        Flow::Call { target } => Some(target),
        _ => None,
    }
}
