// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulated processor as callbacks see it: its registers, its memory, its exceptions.
//!
//! Differences between architectures are behind [`Arch`]. Only memory is read, never a device, and the memory's
//! content is not trusted.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU16;
use std::ops::Range;
use std::path::{Path, PathBuf};

use decode::Isa;
use wire::control::Word;
use wire::memory;
use wire::request::Request;

/// Size of the smallest page, within which addresses stay adjacent in memory.
const PAGE_BYTES: u64 = 1024;

/// Most bytes of guest memory in one read.
pub const MAX_READ_BYTES: usize = 4096;

/// A vCPU as provided by its emulator: registers and memory, inside callbacks of that vCPU.
pub trait Vcpu: Sized + 'static {
    /// A register's handle.
    type Register: Copy;

    /// Finds the executing vCPU's registers. `general` are the names of the integer registers by number; the first
    /// `in_a_row` lie in an array.
    fn find(general: &[&str], in_a_row: usize) -> Self;

    /// Handle of the first register with this name.
    fn get(&self, name: &str) -> Option<Self::Register>;

    /// Reads a register. A wider register is cut to 64 bits.
    fn read(&mut self, register: Self::Register) -> Option<u64>;

    /// Reads an integer register by its number.
    fn read_general(&mut self, number: u8) -> Option<u64>;

    /// Reads at most [`MAX_READ_BYTES`] of memory into `bytes`, and replaces the former content. Returns whether the
    /// memory could be read. The read *is* an access: a device would react.
    fn read_memory_into(&mut self, address: u64, length: usize, bytes: &mut Vec<u8>) -> bool;

    /// Reads a little-endian number of at most eight bytes; see [`Vcpu::read_memory_into`].
    fn read_memory_word(&mut self, address: u64, length: usize) -> Option<u64>;

    /// Physical address of data accesses to an address; None: unmapped, or unknown.
    fn physical(&mut self, address: u64) -> Option<u64>;

    /// Whether the calling thread executes the guest. Other threads cannot read the guest's memory.
    fn is_here() -> bool;

    /// Reads memory; see [`Vcpu::read_memory_into`].
    fn read_memory(&mut self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_memory_into(address, length, &mut bytes).then_some(bytes)
    }
}

/// An instruction during translation.
pub trait Insn {
    /// Its address.
    fn pc(&self) -> u64;

    /// Its bytes in memory order, and their number.
    fn bytes(&self) -> ([u8; 4], usize);

    /// Copies bytes at `offset` from the instruction, from the memory that it was translated from. False: not all of
    /// them are on the instruction's page, or it was not translated from memory.
    fn beside(&self, offset: i64, bytes: &mut [u8]) -> bool;
}

/// The registers that a stack walk needs, at one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Address of the instruction.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The return address register.
    pub return_addr: u64,
    /// The second return address register; 0 if the architecture has none, and in code that has called another
    /// function.
    pub second_return_addr: u64,
    /// The frame pointer.
    pub frame_pointer: u64,
}

/// An exception that the processor has taken.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Exception number, or cause with the highest of 64 bits for interrupts.
    pub number: u64,
    /// First address of the handler.
    pub handler: u64,
    /// The stack pointer with which the handler starts.
    pub entry_sp: u64,
    /// The stack pointer of the interrupted code, below the registers that the processor has saved on its stack.
    pub saved_sp: u64,
    /// The interrupted code; None: it cannot be read.
    pub interrupted: Option<Context>,
    /// Number of the exception that this one interrupted; 0: none. None: the processor does not say.
    pub below: Option<u64>,
}

/// Registers of interrupted code that an exception saved.
pub struct Interrupted {
    /// Address of the instruction.
    pub pc: u64,
    /// The return address register.
    pub return_addr: u64,
}

/// Effect of a store beyond memory.
#[derive(Clone, Copy, Debug)]
pub enum Stored {
    /// Ends the run with this status.
    Exit(u64),
    /// Resets the machine.
    Reset,
    /// Makes PendSV pending.
    Pend,
    /// Clears a pending PendSV.
    Unpend,
}

/// Constants of an architecture.
pub struct Facts {
    /// Names of the integer registers by number, as in QEMU, followed by other registers that are read as often.
    pub(super) registers: &'static [&'static str],
    /// Number of registers that QEMU keeps in an array, from the first one on.
    pub(super) registers_in_a_row: usize,
    /// Number of the stack pointer.
    pub sp: u8,
    pub(super) return_addr: u8,
    /// Number of the register in which millicode has its return address, or assembly that needs the first one.
    pub(super) second_return_addr: Option<u8>,
    /// Whether code that returns by the second register leaves the first one as it was.
    pub second_leaves_first: bool,
    pub(super) frame_pointer: u8,
    /// Registers of a function's first two arguments.
    pub(super) arguments: [u8; 2],
    /// Bytes that a call pushes on the stack.
    pub call_bytes: u64,
    /// Least number of bytes that the processor pushes on the interrupted stack.
    pub exception_frame_bytes: u64,
    /// Length of the instruction that asks for an exception (`svc`, `ecall`); 0: there is none.
    pub asking_bytes: u64,
    /// Whether exceptions return by an ordinary jump, which cannot be recognised by its instruction.
    pub returns_by_jump: bool,
    /// Whether a wait for events ends with an exception, and QEMU does not wait (`wfe`).
    pub has_events: bool,
    /// Whether interrupts are masked at reset, until the firmware allows them.
    pub is_masked_at_reset: bool,
    /// Whether an exception's return may unmask interrupts.
    pub return_unmasks: bool,
    /// Whether a register says which of several vCPUs executes, see [`Arch::vcpu`].
    pub names_vcpus: bool,
    /// Address and size of the registers with the cause of a fault. Reading them has no effect.
    pub fault_registers: Option<(u64, usize)>,
}

/// An architecture. The defaults are for processors without the feature.
pub(super) trait Arch<V: Vcpu>: Sync {
    fn facts(&self) -> &'static Facts;

    /// Number of the executing vCPU.
    fn vcpu(&self, _: &mut Guest<V>) -> Option<u32> {
        None
    }

    /// The stack pointer, as an address of memory.
    fn stack_pointer(&self, guest: &mut Guest<V>) -> u64 {
        guest.general_register(guest.facts.sp)
    }

    /// The frame pointer, as an address of memory.
    fn frame_pointer(&self, guest: &mut Guest<V>) -> u64 {
        guest.general_register(guest.facts.frame_pointer)
    }

    /// The return address register, or what has its value at a function's first instruction.
    fn return_register(&self, guest: &mut Guest<V>) -> u64 {
        guest.general_register(guest.facts.return_addr)
    }

    /// See [`Guest::arguments`].
    fn arguments(&self, guest: &mut Guest<V>) -> [u64; 2] {
        guest.facts.arguments.map(|number| guest.general_register(number))
    }

    /// Value of a word that was pushed on the stack, from its bytes in memory order.
    fn stack_word(&self, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// The frame pointer as an address of memory, from the word that was pushed.
    fn pushed_frame_pointer(&self, word: u64) -> u64 {
        word
    }

    /// Whether a return address is an exception return instead. None: the architecture has no such values.
    fn is_exception_return(&self, _address: u64) -> Option<bool> {
        None
    }

    /// Whether a return address cannot come from a call: a new context starts with it.
    fn is_nowhere(&self, _address: u64) -> bool {
        false
    }

    /// Return address and stack pointer at reset, if known.
    fn reset(&self, _: &mut Guest<V>) -> Option<(u64, u64)> {
        None
    }

    /// Code address in a call's return address.
    fn code_address(&self, address: u64) -> u64 {
        address
    }

    /// Whether a block at `pc` may be the first one of an exception, in the state at translation.
    fn may_be_handler(&self, guest: &mut Guest<V>, pc: u64, may_be_function: bool) -> bool;

    /// Whether the block at `pc` that is being translated can be the first one of an exception, now or later. Unlike
    /// [`Arch::may_be_handler`], which is an estimate, `false` is a proof, as long as the trap vector stays the same
    /// ([`Guest::epoch`]).
    fn can_start_exception(&self, guest: &mut Guest<V>, pc: u64) -> bool;

    /// Whether the block at `pc`, which has just started, is the first one of an exception.
    fn is_exception_entry(&self, guest: &mut Guest<V>, pc: u64) -> bool;

    /// Exception whose handler starts at `pc`.
    fn taken(&self, guest: &mut Guest<V>, pc: u64) -> Option<Taken>;

    /// Exception that this one preempted before the other's first instruction, so that the other was not noticed.
    fn preempted(&self, _: &mut Guest<V>, _: &Taken) -> Option<Taken> {
        None
    }

    /// Stack pointer of the code outside of exceptions.
    fn thread_stack_pointer(&self, guest: &mut Guest<V>) -> u64 {
        guest.stack_pointer()
    }

    /// Whether the current stack pointer is that of the stack on which the firmware starts. `in_task`: a task runs, or
    /// an exception has interrupted one.
    fn is_main_stack(&self, _: &mut Guest<V>, _sp: u64, in_task: bool) -> bool {
        !in_task
    }

    /// Group priority of an exception; None: it has none that firmware chooses.
    fn exception_level(&self, _: &mut Guest<V>, _number: u64) -> Option<u64> {
        None
    }

    /// Number of the exception that the processor executes; 0: none. None: the processor does not say, and every
    /// exception's return is a special instruction.
    fn active_exception(&self, _: &mut Guest<V>) -> Option<u64> {
        None
    }

    /// Number and interrupted code of an exception whose start was not noticed, from its handler's frame.
    fn unseen(&self, _: &mut Guest<V>, _cfa: u64, _return_addr: u64) -> Option<(u64, Context)> {
        None
    }

    /// Registers that an exception has saved, at the start of its first block.
    fn interrupted(&self, guest: &mut Guest<V>) -> Option<Interrupted>;

    /// Whether interrupts are masked.
    fn is_masked(&self, guest: &mut Guest<V>) -> bool;

    /// Whether an enabled interrupt could interrupt the executing code. It may never come.
    fn may_be_interrupted(&self, guest: &mut Guest<V>) -> bool;

    /// Whether the firmware has enabled an interrupt that only the masks hold back.
    fn holds_back(&self, _: &mut Guest<V>) -> bool {
        false
    }

    /// Whether interrupts were masked before the exception that starts now. None: taking an exception does not mask
    /// them.
    fn masked_before_trap(&self, _: &mut Guest<V>) -> Option<bool> {
        None
    }

    /// Effect of a store to an address.
    fn stored(&self, _address: u64, _value: u64) -> Option<Stored> {
        None
    }

    /// Effect of a store to the test finisher.
    fn finished(&self, _value: u64) -> Option<Stored> {
        None
    }

    /// Fault information of the exception whose handler starts, as words of the control page; None: it is not a fault.
    fn fault(&self, guest: &mut Guest<V>, number: u64) -> Option<Vec<(Word, u64)>>;

    /// Words of the control page for the content of the fault registers.
    fn faults(&self, _registers: &[u8]) -> Option<[(Word, u64); 4]> {
        None
    }

    /// Whether QEMU has translated a breakpoint instruction as a semihosting call, as it does in privileged code
    /// only. True if this is not certain.
    fn is_semihosting(&self, guest: &mut Guest<V>, insn: &dyn Insn) -> bool;

    /// Physical address of a data access to an address; None: unmapped, or unknown.
    fn physical(&self, _: &mut Guest<V>, address: u64) -> Option<u64> {
        Some(address)
    }
}

/// The emulated processor.
pub struct Guest<V: Vcpu> {
    /// The instruction set.
    pub isa: Isa,
    /// Constants of the architecture.
    pub facts: &'static Facts,
    arch: &'static dyn Arch<V>,
    /// Memory that can be read without affecting a device.
    memory: Vec<Range<u64>>,
    /// The file that will list this memory once the machine exists; None: the file has been read.
    memory_file: Option<PathBuf>,
    /// The test finisher's address.
    finisher: Option<u64>,
    /// Registers of the executing vCPU.
    pub(super) registers: Option<V>,
    /// The executing vCPU.
    vcpu: u32,
    /// Registers of the other vCPUs, which may be of another kind.
    others: HashMap<u32, V>,
    is_readable: bool,
    /// Whether each register is read through the API.
    is_oracle: bool,
    /// See [`Guest::epoch`].
    epoch: u16,
}

impl<V: Vcpu> Guest<V> {
    /// The request's processor, with this instruction set and architecture; the list of its memory will be in
    /// `directory`.
    pub(super) fn with(isa: Isa, arch: &'static dyn Arch<V>, request: &Request, directory: &str) -> Guest<V> {
        Guest {
            isa,
            facts: arch.facts(),
            arch,
            memory: request.memory.clone(),
            memory_file: Some(Path::new(directory).join(memory::FILE_NAME)),
            finisher: request.finisher,
            registers: None,
            vcpu: 0,
            others: HashMap::new(),
            is_readable: true,
            is_oracle: request.measure().is_some_and(|measure| measure.is_oracle),
            epoch: 1,
        }
    }

    /// Looks up the registers of a vCPU that is about to run on this thread.
    pub fn appear(&mut self) {
        let in_a_row = if self.is_oracle { 0 } else { self.facts.registers_in_a_row };
        self.registers.get_or_insert_with(|| V::find(self.facts.registers, in_a_row));
    }

    /// Switches to another vCPU.
    pub fn turn_to(&mut self, vcpu: u32) {
        if vcpu != self.vcpu {
            let registers = self.others.remove(&vcpu);
            if let Some(others) = std::mem::replace(&mut self.registers, registers) {
                self.others.insert(self.vcpu, others);
            }
            self.vcpu = vcpu;
        }
        self.appear();
    }

    /// Reads the list of the machine's memory. harness writes the list before the machine may execute anything, so
    /// this comes first at translation.
    pub fn learn_memory(&mut self) {
        let Some(file) = self.memory_file.take() else { return };
        if let Some(memory) = fs::read(file).ok().and_then(|bytes| memory::read(&bytes).ok()) {
            self.memory = memory;
        }
    }

    /// Disables reading guest memory: QEMU exits, and its functions for reading would fail an assertion.
    pub fn vanish(&mut self) {
        self.is_readable = false;
    }

    /// Enables reading guest memory if this thread executes the guest: on another one QEMU would abort.
    pub fn read_here(&mut self) {
        self.is_readable = V::is_here();
    }

    /// Whether guest memory can be read now.
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }

    /// Registers of the executing vCPU.
    pub fn registers(&mut self) -> Option<&mut V> {
        self.registers.as_mut()
    }

    /// Number of the executing vCPU, from the processor.
    pub fn vcpu(&mut self) -> Option<u32> {
        self.arch.vcpu(self)
    }

    /// Reads a register inside a callback; 0 if the CPU has no register of that name.
    pub(super) fn register(&mut self, name: &str) -> u64 {
        self.known_register(name).unwrap_or(0)
    }

    /// Reads a register inside a callback; None if the CPU has no register of that name, or QEMU does not read it.
    pub fn known_register(&mut self, name: &str) -> Option<u64> {
        let registers = self.registers.as_mut()?;
        registers.get(name).and_then(|register| registers.read(register))
    }

    /// Reads an integer register by its number.
    pub fn general_register(&mut self, number: u8) -> u64 {
        self.registers.as_mut().and_then(|registers| registers.read_general(number)).unwrap_or(0)
    }

    /// Reads an integer register by its number, as a signed number.
    pub fn signed_register(&mut self, number: u8) -> i64 {
        let value = self.general_register(number);
        match self.isa {
            Isa::Riscv64 | Isa::Riscv64Zc => value as i64,
            Isa::Riscv32 | Isa::Riscv32Zc | Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => {
                i64::from(value as u32 as i32)
            }
            Isa::AvrPc16 | Isa::AvrPc22 => i64::from(value as u8 as i8),
        }
    }

    /// Reads a number of at most 8 bytes from as many registers of a byte, the lowest byte from the first.
    pub fn value_of_bytes(&mut self, first: u8, bytes: u8, is_signed: bool) -> i64 {
        let read =
            (first..first + bytes).rev().fold(0, |value, number| value << 8 | self.general_register(number) & 0xff);
        let unused_bits = 64 - 8 * u32::from(bytes);
        if is_signed { ((read << unused_bits) as i64) >> unused_bits } else { read as i64 }
    }

    /// The stack pointer.
    pub fn stack_pointer(&mut self) -> u64 {
        self.arch.stack_pointer(self)
    }

    /// See [`Arch::thread_stack_pointer`].
    pub fn thread_stack_pointer(&mut self) -> u64 {
        self.arch.thread_stack_pointer(self)
    }

    /// See [`Arch::is_main_stack`].
    pub fn is_main_stack(&mut self, sp: u64, in_task: bool) -> bool {
        self.arch.is_main_stack(self, sp, in_task)
    }

    /// See [`Arch::exception_level`].
    pub fn exception_level(&mut self, number: u64) -> Option<u64> {
        self.arch.exception_level(self, number)
    }

    /// The return address register.
    pub fn return_register(&mut self) -> u64 {
        self.arch.return_register(self)
    }

    /// First two arguments of the function that starts here, or of a semihosting call.
    pub fn arguments(&mut self) -> [u64; 2] {
        self.arch.arguments(self)
    }

    /// Current registers, in a callback at `pc`.
    pub fn context(&mut self, pc: u64) -> Context {
        Context {
            pc,
            sp: self.stack_pointer(),
            return_addr: self.return_register(),
            second_return_addr: self.facts.second_return_addr.map_or(0, |number| self.general_register(number)),
            frame_pointer: self.arch.frame_pointer(self),
        }
    }

    /// Size of a pointer.
    pub fn pointer_bytes(&self) -> u64 {
        match self.isa {
            Isa::Riscv64 | Isa::Riscv64Zc => 8,
            Isa::Riscv32 | Isa::Riscv32Zc | Isa::ThumbV6m | Isa::ThumbV7m | Isa::ThumbV8m => 4,
            Isa::AvrPc16 | Isa::AvrPc22 => 2,
        }
    }

    /// Alignment of words on the stack.
    pub fn stack_alignment(&self) -> u64 {
        if self.isa.is_avr() { 1 } else { self.pointer_bytes() }
    }

    /// Value of a word that was pushed on the stack, from its bytes in memory order.
    pub fn stack_word(&self, bytes: &[u8]) -> u64 {
        self.arch.stack_word(bytes)
    }

    /// See [`Arch::pushed_frame_pointer`].
    pub fn pushed_frame_pointer(&self, word: u64) -> u64 {
        self.arch.pushed_frame_pointer(word)
    }

    /// Value of a pointer-sized variable of the firmware.
    pub fn pointer(&mut self, address: u64) -> Option<u64> {
        self.memory_word(address, self.pointer_bytes())
    }

    /// Size of a return address on the stack.
    pub fn return_addr_bytes(&self) -> u8 {
        match self.isa.call_bytes() {
            0 => self.pointer_bytes() as u8,
            bytes => bytes,
        }
    }

    /// Size of a frame pointer on the stack.
    pub fn frame_pointer_bytes(&self) -> u8 {
        self.pointer_bytes() as u8
    }

    /// Value of a word of this size that was pushed on the stack.
    pub fn pushed(&mut self, address: u64, bytes: u8) -> Option<u64> {
        let bytes = self.memory(address, bytes.into())?;
        Some(self.stack_word(&bytes))
    }

    /// Reads guest memory, but never a device.
    pub fn memory(&mut self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        self.readable(address, bytes as u64)?.read_memory(address, bytes)
    }

    /// Reads guest memory through the processor's translation of addresses, as QEMU does for a semihosting call's
    /// buffers; never a device.
    pub fn translated(&mut self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut read = Vec::with_capacity(bytes);
        while read.len() < bytes {
            let at = address.wrapping_add(read.len() as u64);
            let on_page = (PAGE_BYTES - at % PAGE_BYTES).min((bytes - read.len()) as u64);
            let physical = self.arch.physical(self, at)?;
            read.extend(self.readable(physical, on_page)?.read_memory(at, on_page as usize)?);
        }
        Some(read)
    }

    /// Whether [`Guest::translated`] could read this much, without reading it.
    pub fn is_translated(&mut self, address: u64, bytes: u64) -> bool {
        let mut seen = 0;
        while seen < bytes {
            let at = address.wrapping_add(seen);
            let on_page = (PAGE_BYTES - at % PAGE_BYTES).min(bytes - seen);
            let physical = self.arch.physical(self, at);
            if physical.and_then(|physical| self.readable(physical, on_page)).is_none() {
                return false;
            }
            seen += on_page;
        }
        true
    }

    /// Length of the text at an address up to its NUL; slightly more than `most` if there is none by then. None: the
    /// memory ends before it.
    pub fn text_bytes(&mut self, address: u64, most: u64) -> Option<u64> {
        let mut seen = 0;
        while seen < most {
            let at = address.wrapping_add(seen);
            let on_page = PAGE_BYTES - at % PAGE_BYTES;
            let bytes = self.translated(at, on_page as usize)?;
            if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
                return Some(seen + end as u64);
            }
            seen += on_page;
        }
        Some(seen)
    }

    /// Reads a little-endian number of at most eight bytes from guest memory.
    pub fn memory_word(&mut self, address: u64, bytes: u64) -> Option<u64> {
        self.readable(address, bytes)?.read_memory_word(address, bytes as usize)
    }

    /// Whether there is memory at an address, and no device.
    pub fn is_memory(&self, address: u64) -> bool {
        self.memory.iter().any(|region| region.contains(&address))
    }

    /// Whether a stack pointer points neither to memory nor to its end.
    pub fn is_off_memory(&self, sp: u64) -> bool {
        !self.is_memory(sp) && !sp.checked_sub(1).is_some_and(|below| self.is_memory(below))
    }

    /// First address of the nearest memory above an address.
    pub fn next_memory(&self, address: u64) -> Option<u64> {
        self.memory.iter().map(|region| region.start).filter(|&start| start > address).min()
    }

    /// Bytes from an address to the end of its memory.
    pub fn memory_from(&self, address: u64) -> Option<u64> {
        self.memory.iter().find(|region| region.contains(&address)).map(|region| region.end - address)
    }

    /// Reads guest memory into `bytes`, and replaces the former content. The caller has checked that the range is
    /// memory.
    pub fn read_into(&mut self, address: u64, length: usize, bytes: &mut Vec<u8>) -> bool {
        self.registers.as_mut().is_some_and(|registers| registers.read_memory_into(address, length, bytes))
    }

    /// The vCPU with which to read a range, if the range is memory and can be read now.
    fn readable(&mut self, address: u64, bytes: u64) -> Option<&mut V> {
        let end = address.checked_add(bytes);
        let is_memory =
            end.is_some_and(|end| self.memory.iter().any(|range| range.start <= address && end <= range.end));
        self.registers.as_mut().filter(|_| self.is_readable && is_memory)
    }

    /// See [`Arch::is_exception_return`].
    pub fn is_exception_return(&self, address: u64) -> Option<bool> {
        self.arch.is_exception_return(address)
    }

    /// See [`Arch::is_nowhere`].
    pub fn is_nowhere(&self, address: u64) -> bool {
        self.arch.is_nowhere(address)
    }

    /// See [`Arch::reset`].
    pub fn reset(&mut self) -> Option<(u64, u64)> {
        self.arch.reset(self)
    }

    /// See [`Arch::code_address`].
    pub fn code_address(&self, address: u64) -> u64 {
        self.arch.code_address(address)
    }

    /// See [`Arch::may_be_handler`]; `may_be_function`: a function may start at `pc`.
    pub fn may_be_handler(&mut self, pc: u64, may_be_function: bool) -> bool {
        self.arch.may_be_handler(self, pc, may_be_function)
    }

    /// Epoch in which no exception starts at `pc`, where a block is being translated. None: one may start.
    pub fn epoch_without_exception(&mut self, pc: u64) -> Option<NonZeroU16> {
        let can_start = self.arch.can_start_exception(self, pc);
        NonZeroU16::new(self.epoch).filter(|_| !can_start)
    }

    /// Whether an epoch still lasts.
    pub fn is_epoch(&self, epoch: Option<NonZeroU16>) -> bool {
        epoch.is_some_and(|epoch| epoch.get() == self.epoch)
    }

    /// Begins another epoch, since traps will have another target.
    pub fn vector_moves(&mut self) {
        // Zero is final: after 65,535 changes of the vector there are no more epochs.
        self.epoch = if self.epoch == 0 { 0 } else { self.epoch.wrapping_add(1) };
    }

    /// Whether the code being translated is executed by an exception.
    pub fn is_in_exception(&mut self) -> bool {
        self.active_exception() != Some(0)
    }

    /// See [`Arch::is_exception_entry`].
    pub fn is_exception_entry(&mut self, pc: u64) -> bool {
        self.arch.is_exception_entry(self, pc)
    }

    /// See [`Arch::taken`].
    pub fn taken_exception(&mut self, pc: u64) -> Option<Taken> {
        self.arch.taken(self, pc)
    }

    /// See [`Arch::preempted`].
    pub fn preempted_exception(&mut self, taken: &Taken) -> Option<Taken> {
        self.arch.preempted(self, taken)
    }

    /// See [`Arch::active_exception`].
    pub fn active_exception(&mut self) -> Option<u64> {
        self.arch.active_exception(self)
    }

    /// See [`Arch::unseen`].
    pub fn unseen_exception(&mut self, cfa: u64, return_addr: u64) -> Option<(u64, Context)> {
        self.arch.unseen(self, cfa, return_addr)
    }

    /// See [`Arch::interrupted`].
    pub fn interrupted_code(&mut self) -> Option<Interrupted> {
        self.arch.interrupted(self)
    }

    /// See [`Arch::is_masked`].
    pub fn is_masked(&mut self) -> bool {
        self.arch.is_masked(self)
    }

    /// See [`Arch::may_be_interrupted`].
    pub fn may_be_interrupted(&mut self) -> bool {
        self.arch.may_be_interrupted(self)
    }

    /// See [`Arch::holds_back`].
    pub fn holds_back(&mut self) -> bool {
        self.arch.holds_back(self)
    }

    /// See [`Arch::masked_before_trap`].
    pub fn masked_before_trap(&mut self) -> Option<bool> {
        self.arch.masked_before_trap(self)
    }

    /// Effect of a store to an address.
    pub fn stored(&self, address: u64, value: u64) -> Option<Stored> {
        if Some(address) == self.finisher { self.arch.finished(value) } else { self.arch.stored(address, value) }
    }

    /// See [`Arch::fault`].
    pub fn fault(&mut self, number: u64) -> Option<Vec<(Word, u64)>> {
        self.arch.fault(self, number)
    }

    /// Interpreter of the fault registers, for the handler of an abort, which may find the guest locked.
    pub fn fault_reader(&self) -> FaultReader<V> {
        FaultReader(self.arch)
    }

    /// See [`Arch::is_semihosting`]; `insn` has just been translated, in the processor's current state.
    pub fn is_semihosting(&mut self, insn: &dyn Insn) -> bool {
        self.arch.is_semihosting(self, insn)
    }
}

/// Interprets the fault registers.
pub struct FaultReader<V: 'static>(&'static dyn Arch<V>);

impl<V: Vcpu> FaultReader<V> {
    /// Address and size of the registers, if there are any.
    pub fn registers(&self) -> Option<(u64, usize)> {
        self.0.facts().fault_registers
    }

    /// Words of the control page for their content.
    pub fn words(&self, registers: &[u8]) -> Option<[(Word, u64); 4]> {
        self.0.faults(registers)
    }
}
