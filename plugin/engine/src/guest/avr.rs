// SPDX-License-Identifier: MIT OR Apache-2.0
//! AVR: calls and interrupts push their return address on the stack, the high byte at the lower address and counted in
//! words; a handler ends by an instruction for that purpose (`reti`). An interrupt starts at its vector, which is code.
//!
//! Addresses are those of ELF files and of QEMU: flash begins at 0, and the data space at [`DATA_SPACE`]. A register
//! holds an address of the data space without that offset.

use decode::Isa;
use wire::control::Word;

use super::processor::{Arch, Context, Facts, Guest, Insn, Interrupted, Stored, Taken, Vcpu};

/// AVRe and AVRe+.
pub(super) struct Avr(&'static Facts);

/// AVR with return addresses of two bytes.
pub(super) static PC16: Avr = Avr(&PC16_FACTS);
static PC16_FACTS: Facts = facts(Isa::AvrPc16);

/// AVR with return addresses of three bytes.
pub(super) static PC22: Avr = Avr(&PC22_FACTS);
static PC22_FACTS: Facts = facts(Isa::AvrPc22);

/// Address of the data space's first byte.
const DATA_SPACE: u64 = wire::chip::AVR_DATA.start;

/// Number of the stack pointer in the list of registers.
const SP: u8 = 32;

const fn facts(isa: Isa) -> Facts {
    Facts {
        registers: &[
            "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
            "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30",
            "r31", "sp", "sreg",
        ],
        // Each is a byte to the API and a word to QEMU.
        registers_in_a_row: 0,
        sp: SP,
        return_addr: SP,
        second_return_addr: None,
        second_leaves_first: false,
        frame_pointer: Y,
        // The lower halves of the first two arguments of 16 bits.
        arguments: [24, 22],
        call_bytes: isa.call_bytes() as u64,
        exception_frame_bytes: isa.call_bytes() as u64,
        asking_bytes: 0,
        returns_by_jump: false,
        has_events: false,
        is_masked_at_reset: true,
        return_unmasks: false,
        names_vcpus: false,
        fault_registers: None,
    }
}

/// Number of the pair Y's lower half.
const Y: u8 = 28;

/// Global interrupt enable, in the status register.
const I: u64 = 1 << 7;

/// Size of a vector on processors with `jmp`: one such instruction.
const VECTOR_BYTES: u64 = 4;

/// Most vectors of a processor (ATmega2560).
const MAX_VECTORS: u64 = 57;

/// Mark of an interrupt's number.
const INTERRUPT: u64 = 1 << 63;

impl<V: Vcpu> Arch<V> for Avr {
    fn facts(&self) -> &'static Facts {
        self.0
    }

    fn stack_pointer(&self, guest: &mut Guest<V>) -> u64 {
        DATA_SPACE + guest.general_register(SP)
    }

    fn frame_pointer(&self, guest: &mut Guest<V>) -> u64 {
        DATA_SPACE + pair(guest, Y)
    }

    /// The bytes on top of the stack: the return address at a function's first instruction.
    fn return_register(&self, guest: &mut Guest<V>) -> u64 {
        let top = guest.stack_pointer() + 1;
        guest.memory(top, self.0.call_bytes as usize).map_or(0, |bytes| big_endian(&bytes))
    }

    fn arguments(&self, guest: &mut Guest<V>) -> [u64; 2] {
        self.0.arguments.map(|lower| pair(guest, lower))
    }

    fn code_address(&self, address: u64) -> u64 {
        address << 1
    }

    fn stack_word(&self, bytes: &[u8]) -> u64 {
        big_endian(bytes)
    }

    fn pushed_frame_pointer(&self, word: u64) -> u64 {
        DATA_SPACE + word
    }

    fn may_be_handler(&self, guest: &mut Guest<V>, pc: u64, _: bool) -> bool {
        is_vector(guest, pc)
    }

    fn can_start_exception(&self, guest: &mut Guest<V>, pc: u64) -> bool {
        is_vector(guest, pc)
    }

    fn is_exception_entry(&self, guest: &mut Guest<V>, pc: u64) -> bool {
        is_vector(guest, pc)
    }

    fn taken(&self, guest: &mut Guest<V>, pc: u64) -> Option<Taken> {
        // An interrupt clears the flag; nothing but a jump comes here while it is set.
        if !is_vector(guest, pc) || guest.register("sreg") & I != 0 {
            return None;
        }
        let here = guest.context(pc);
        // The frame ends where that of the interrupted code begins.
        let entry_sp = here.sp + self.0.exception_frame_bytes;
        let interrupted = Context { pc: guest.code_address(here.return_addr), sp: entry_sp, ..here };
        Some(Taken {
            number: INTERRUPT | (pc / VECTOR_BYTES),
            handler: vector_target(guest, pc).unwrap_or(pc),
            entry_sp,
            saved_sp: here.sp,
            interrupted: Some(interrupted),
            below: None,
        })
    }

    fn interrupted(&self, guest: &mut Guest<V>) -> Option<Interrupted> {
        let pc = guest.return_register();
        // Behind the address that the interrupt has pushed lies the one that was on top.
        let top = guest.stack_pointer() + 1 + self.0.exception_frame_bytes;
        let bytes = guest.memory(top, self.0.call_bytes as usize);
        Some(Interrupted { pc: guest.code_address(pc), return_addr: bytes.map_or(0, |bytes| big_endian(&bytes)) })
    }

    fn is_masked(&self, guest: &mut Guest<V>) -> bool {
        guest.register("sreg") & I == 0
    }

    fn may_be_interrupted(&self, guest: &mut Guest<V>) -> bool {
        guest.register("sreg") & I != 0
    }

    fn masked_before_trap(&self, _: &mut Guest<V>) -> Option<bool> {
        Some(false)
    }

    fn fault(&self, _: &mut Guest<V>, _: u64) -> Option<Vec<(Word, u64)>> {
        None
    }

    fn finished(&self, _: u64) -> Option<Stored> {
        None
    }

    fn is_semihosting(&self, _: &mut Guest<V>, _: &dyn Insn) -> bool {
        false
    }
}

/// Value of a pair of registers, by the number of its lower half.
pub fn pair(guest: &mut Guest<impl Vcpu>, lower: u8) -> u64 {
    guest.general_register(lower) | guest.general_register(lower + 1) << 8
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Whether an interrupt may lead to `pc`: a jump is there, and at all vectors before. The first vector is that of the
/// reset. What follows the vectors may begin with a jump, too, but nothing jumps there from outside of the firmware.
fn is_vector(guest: &mut Guest<impl Vcpu>, pc: u64) -> bool {
    (VECTOR_BYTES..MAX_VECTORS * VECTOR_BYTES).contains(&pc)
        && pc.is_multiple_of(VECTOR_BYTES)
        && (0..=pc).step_by(VECTOR_BYTES as usize).all(|vector| vector_target(guest, vector).is_some())
}

/// Address that a vector jumps to; None: it is not a jump.
fn vector_target(guest: &mut Guest<impl Vcpu>, vector: u64) -> Option<u64> {
    let bytes = guest.memory(vector, VECTOR_BYTES as usize)?;
    match decode::decode(guest.isa, vector, &bytes).flow {
        decode::Flow::Jump { target } => Some(target),
        _ => None,
    }
}
