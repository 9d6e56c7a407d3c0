// SPDX-License-Identifier: GPL-2.0-or-later
//! Blocks and instructions as they are translated, and what generated code does at them.

use std::ffi::{c_uint, c_void};

use super::hooks::{AccessHook, Hook, LeaveHook, SplitHook, access_trampoline, leave_entry, split_entry, trampoline};
use super::raw::{self, READS_REGISTERS, WRITES_REGISTERS, access, condition, operation};
use super::versions;

/// Smallest page of the processors for which [`engine::guest::Insn::beside`] is used.
const PAGE_BYTES: u64 = 4096;

/// Called when a block is translated.
pub(crate) type TranslateCallback = fn(block: &Block);
/// Calls `T` for every block that QEMU translates.
pub(crate) fn on_translate<T: TranslateHook>(id: u64) {
    extern "C" fn by_id<T: TranslateHook>(_: u64, tb: *mut raw::Tb) {
        T::CALL(&Block(tb));
    }
    extern "C" fn by_data<T: TranslateHook>(tb: *mut raw::Tb, _: *mut c_void) {
        T::CALL(&Block(tb));
    }
    versions::on_translate(id, by_id::<T>, by_data::<T>);
}

/// Names the function called at translation.
pub(crate) trait TranslateHook {
    /// Function that QEMU calls for each translated block.
    const CALL: TranslateCallback;
}

/// A block being translated; QEMU owns it and it lives as long as the translation callback.
pub(crate) struct Block(pub(in crate::qemu) *mut raw::Tb);

/// An instruction of a block being translated.
pub(crate) struct Insn<'a>(*mut raw::Insn, std::marker::PhantomData<&'a Block>);

impl Block {
    /// The block's instructions, in order.
    pub(crate) fn insns(&self) -> impl ExactSizeIterator<Item = Insn<'_>> {
        // SAFETY: the block is valid during the callback that made `self`.
        let count = unsafe { raw::qemu_plugin_tb_n_insns(self.0) };
        (0..count).map(|index| {
            // SAFETY: as above, and `index` is below the count.
            Insn(unsafe { raw::qemu_plugin_tb_get_insn(self.0, index) }, std::marker::PhantomData)
        })
    }

    /// Calls `H` with `id` at the start of each execution.
    pub(crate) fn call<H: Hook>(&self, id: usize) {
        // SAFETY: the block is valid; `id` is only ever read as a number.
        unsafe {
            raw::qemu_plugin_register_vcpu_tb_exec_cb(self.0, trampoline::<H>, READS_REGISTERS, id as *mut c_void);
        }
    }

    /// Calls `H` with `id` at the start of each execution, before anything else that is registered later, and leaves the block
    /// there if `H` says so.
    pub(crate) fn call_to_leave<H: LeaveHook>(&self, id: usize) {
        // SAFETY: the block is valid; `id` is only ever read as a number.
        unsafe {
            let id = id as *mut c_void;
            raw::qemu_plugin_register_vcpu_tb_exec_cb(self.0, leave_entry::<H>, READS_REGISTERS, id);
        }
    }

    /// Calls `H` with `id` at the start of each execution while the vCPU's cell is at least `least`.
    pub(crate) fn call_when_at_least<H: Hook>(&self, cell: Cell, least: u64, id: usize) {
        self.call_when::<H>(condition::AT_LEAST, cell, least, id);
    }

    /// Calls `H` with `id` at the start of each execution while the vCPU's cell is not `value`.
    pub(crate) fn call_unless<H: Hook>(&self, cell: Cell, value: u64, id: usize) {
        self.call_when::<H>(condition::NOT_EQUAL, cell, value, id);
    }

    /// Calls `H` with `id` at the start of each execution while the vCPU's cell is `value`.
    pub(crate) fn call_if<H: Hook>(&self, cell: Cell, value: u64, id: usize) {
        self.call_when::<H>(condition::EQUAL, cell, value, id);
    }

    /// Calls `H` with `id` at the start of each execution while the vCPU's cell is below `limit`.
    pub(crate) fn call_when_below<H: Hook>(&self, cell: Cell, limit: u64, id: usize) {
        self.call_when::<H>(condition::BELOW, cell, limit, id);
    }

    /// Adds `amount` to the vCPU's cell at the start of each execution.
    pub(crate) fn add(&self, cell: Cell, amount: u64) {
        self.inline(operation::ADD, cell, amount);
    }

    /// Stores `value` in the vCPU's cell at the start of each execution.
    pub(crate) fn store(&self, cell: Cell, value: u64) {
        self.inline(operation::STORE, cell, value);
    }

    fn inline(&self, op: c_uint, cell: Cell, value: u64) {
        // SAFETY: block and cell are valid, see `Cell`.
        unsafe { raw::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(self.0, op, cell.0, value) }
    }

    fn call_when<H: Hook>(&self, condition: c_uint, cell: Cell, value: u64, id: usize) {
        // SAFETY: block and cell are valid, see `Cell`; `id` is only ever read as a number.
        unsafe {
            raw::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                self.0,
                trampoline::<H>,
                READS_REGISTERS,
                condition,
                cell.0,
                value,
                id as *mut c_void,
            );
        }
    }
}

impl Insn<'_> {
    /// Guest virtual address.
    pub(crate) fn pc(&self) -> u64 {
        // SAFETY: the instruction is valid as long as its block.
        unsafe { raw::qemu_plugin_insn_vaddr(self.0) }
    }

    /// Bytes in memory order, at most four, and their number.
    pub(crate) fn bytes(&self) -> ([u8; 4], usize) {
        let mut bytes = [0; 4];
        // SAFETY: the instruction is valid as long as its block; QEMU writes at most `len` bytes.
        let len = unsafe { raw::qemu_plugin_insn_data(self.0, bytes.as_mut_ptr().cast(), bytes.len()) };
        (bytes, len.min(4))
    }

    /// Adds `amount` to the vCPU's cell whenever the instruction starts.
    pub(crate) fn add(&self, cell: Cell, amount: u64) {
        self.inline(operation::ADD, cell, amount);
    }

    /// Stores `value` in the vCPU's cell whenever the instruction starts.
    pub(crate) fn store(&self, cell: Cell, value: u64) {
        self.inline(operation::STORE, cell, value);
    }

    fn inline(&self, op: c_uint, cell: Cell, value: u64) {
        // SAFETY: instruction and cell are valid, see `Cell`.
        unsafe { raw::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(self.0, op, cell.0, value) }
    }

    /// Calls `H` with `id` whenever the instruction starts.
    pub(crate) fn call<H: Hook>(&self, id: usize) {
        // SAFETY: the instruction is valid; `id` is only ever read as a number.
        unsafe {
            raw::qemu_plugin_register_vcpu_insn_exec_cb(self.0, trampoline::<H>, READS_REGISTERS, id as *mut c_void);
        }
    }

    /// Calls `H` with `id` whenever the instruction starts, and ends the block before it if `H` says so. Nothing else that is called
    /// at the instruction comes again as it is executed, but what comes after its accesses.
    pub(crate) fn call_to_split<H: SplitHook>(&self, id: usize) {
        // SAFETY: the instruction is valid; `id` is only ever read as a number.
        unsafe {
            let id = id as *mut c_void;
            raw::qemu_plugin_register_vcpu_insn_exec_cb(self.0, split_entry::<H>, READS_REGISTERS, id);
        }
    }

    /// Calls `H` with `id` whenever the instruction starts, and leaves the block before it if `H` says so: all that is registered at
    /// the instruction later comes as it is started again.
    pub(crate) fn call_to_leave<H: LeaveHook>(&self, id: usize) {
        // SAFETY: the instruction is valid; `id` is only ever read as a number.
        unsafe {
            let id = id as *mut c_void;
            raw::qemu_plugin_register_vcpu_insn_exec_cb(self.0, leave_entry::<H>, READS_REGISTERS, id);
        }
    }

    /// Calls `H` with `id` when the instruction starts while the vCPU's cell is at least `least`.
    pub(crate) fn call_when_at_least<H: Hook>(&self, cell: Cell, least: u64, id: usize) {
        self.call_when::<H>(READS_REGISTERS, condition::AT_LEAST, cell, least, id);
    }

    /// Calls `H` with `id` when the instruction starts. `H` may change registers, so the call costs more.
    pub(crate) fn hold<H: Hook>(&self, id: usize) {
        // SAFETY: the instruction is valid; `id` is only ever read as a number.
        unsafe {
            let id = id as *mut c_void;
            raw::qemu_plugin_register_vcpu_insn_exec_cb(self.0, trampoline::<H>, WRITES_REGISTERS, id);
        }
    }

    /// Calls `H` as [`Insn::hold`] does, when the vCPU's cell is at least `least`.
    pub(crate) fn hold_when_at_least<H: Hook>(&self, cell: Cell, least: u64, id: usize) {
        self.call_when::<H>(WRITES_REGISTERS, condition::AT_LEAST, cell, least, id);
    }

    /// Calls `H` with `id` when the instruction starts while the vCPU's cell is not `value`.
    pub(crate) fn call_unless<H: Hook>(&self, cell: Cell, value: u64, id: usize) {
        self.call_when::<H>(READS_REGISTERS, condition::NOT_EQUAL, cell, value, id);
    }

    fn call_when<H: Hook>(&self, flags: c_uint, condition: c_uint, cell: Cell, value: u64, id: usize) {
        // SAFETY: instruction and cell are valid, see `Cell`; `id` is only ever read as a number.
        unsafe {
            raw::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                self.0,
                trampoline::<H>,
                flags,
                condition,
                cell.0,
                value,
                id as *mut c_void,
            );
        }
    }

    /// Calls `H` with `id` after each of the instruction's stores.
    pub(crate) fn call_after_store<H: AccessHook>(&self, id: usize) {
        self.call_after::<H>(READS_REGISTERS, access::STORE, id);
    }

    /// Calls `H` with `id` after each of the instruction's loads.
    pub(crate) fn call_after_load<H: AccessHook>(&self, id: usize) {
        self.call_after::<H>(READS_REGISTERS, access::LOAD, id);
    }

    /// Calls `H` as [`Insn::call_after_load`] does; `H` may change registers.
    pub(crate) fn hold_after_load<H: AccessHook>(&self, id: usize) {
        self.call_after::<H>(WRITES_REGISTERS, access::LOAD, id);
    }

    fn call_after<H: AccessHook>(&self, flags: c_uint, accesses: c_uint, id: usize) {
        // SAFETY: the instruction is valid; `id` is only ever read as a number.
        unsafe {
            raw::qemu_plugin_register_vcpu_mem_cb(self.0, access_trampoline::<H>, flags, accesses, id as *mut c_void);
        }
    }
}

impl engine::guest::Insn for Insn<'_> {
    fn pc(&self) -> u64 {
        self.pc()
    }

    fn bytes(&self) -> ([u8; 4], usize) {
        self.bytes()
    }

    fn beside(&self, offset: i64, bytes: &mut [u8]) -> bool {
        let Ok(start) = u64::try_from(offset + (self.pc() % PAGE_BYTES) as i64) else { return false };
        if start + bytes.len() as u64 > PAGE_BYTES {
            return false;
        }
        // SAFETY: the instruction is valid as long as its block.
        let host = unsafe { raw::qemu_plugin_insn_haddr(self.0) }.cast::<u8>();
        if host.is_null() {
            return false;
        }
        // SAFETY: QEMU reads the instruction there, in the mapping of guest memory, whose pages are whole; all bytes
        // read are on that page. Only this thread writes there for the guest.
        unsafe { host.offset(offset as isize).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        true
    }
}

/// A vCPU's u64 that generated code can add to, store to and compare.
#[derive(Clone, Copy)]
pub(crate) struct Cell(raw::U64);

/// QEMU's way to reach per-vCPU memory from generated code.
///
/// The generated address is `data + offset + vcpu * element_size` (accel/tcg/plugin-gen.c,
/// `gen_plugin_u64_ptr`, unchanged from 9.0 to 11.1). The scoreboard's own memory is private to QEMU
/// and lost when it aborts, so cells are addressed by an offset that leads from it into our shared
/// mapping. QEMU moves `data` only when a vCPU is added, and then flushes every translation, so an offset
/// taken at translation holds for that translation.
///
/// Under icount, `vcpu` is a constant: the vCPU that the block was translated for. Generated code multiplies it *in
/// place* (QEMU 10.0, `gen_cpu_index`), so that later uses in the block would see the product. With an element of one
/// byte the product is the same number.
pub(crate) struct Scoreboard(*mut raw::Score);

/// See [`Scoreboard`].
const ELEMENT_BYTES: usize = 1;

// SAFETY: the pointer is only handed back to QEMU, which locks or runs single-threaded as it needs.
unsafe impl Send for Scoreboard {}

impl Scoreboard {
    /// Makes a scoreboard.
    pub(crate) fn new() -> Self {
        // SAFETY: no precondition; never freed, it lives as long as the process.
        Scoreboard(unsafe { raw::qemu_plugin_scoreboard_new(ELEMENT_BYTES) })
    }

    /// The cell at `address` for the vCPU that a block is translated for. Only valid for registrations in the
    /// translation callback in which it was made.
    pub(crate) fn cell(&self, address: usize, vcpu: u32) -> Cell {
        // SAFETY: the scoreboard is never freed, and vCPU 0 exists once anything is translated.
        let base = unsafe { raw::qemu_plugin_scoreboard_find(self.0, 0) } as usize;
        let element = vcpu as usize * ELEMENT_BYTES;
        Cell(raw::U64 { score: self.0, offset: address.wrapping_sub(base).wrapping_sub(element) })
    }
}
