// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cortex-M: the processor saves registers and names the active exception; a handler returns by jumping to a marked
//! address. Section numbers are those of the Armv7-M Architecture Reference Manual.

use std::ops::RangeInclusive;

use wire::control::Word;

use super::processor::{Arch, Context, Facts, Guest, Insn, Interrupted, Stored, Taken, Vcpu};

/// A Cortex-M.
pub(super) struct Arm;

/// Number of xPSR in the list of registers.
const XPSR: u8 = 16;

static FACTS: Facts = Facts {
    registers: &[
        "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr", "pc", "xpsr",
    ],
    // QEMU does not update pc for a callback.
    registers_in_a_row: 15,
    sp: 13,
    return_addr: 14,
    second_return_addr: Some(12),
    second_leaves_first: false,
    frame_pointer: 7,
    arguments: [0, 1],
    call_bytes: 0,
    exception_frame_bytes: 32,
    asking_bytes: 2,
    returns_by_jump: true,
    has_events: true,
    is_masked_at_reset: false,
    // The return clears FAULTMASK.
    return_unmasks: true,
    names_vcpus: false,
    // Addresses of CFSR, HFSR, DFSR, MMFAR and BFAR (B3.2.15-18).
    fault_registers: Some((0xe000_ed28, 20)),
};

/// HardFault, MemManage, BusFault, UsageFault and SecureFault (B1.5.2).
const FAULTS: RangeInclusive<u64> = 3..=7;

/// Numbers of exceptions: two of fixed priority, and the system timer's.
const NMI: u64 = 2;
const HARD_FAULT: u64 = 3;
const SYSTICK: u64 = 15;

/// SysTick Control and Status Register (B3.3.3): bits 0 and 1 enable counter and interrupt.
const SYST_CSR: u64 = 0xe000_e010;

/// Interrupt Set-Enable Registers and Interrupt Priority Registers (B3.4.4, B3.4.9); System Handler Priority
/// Registers (B3.2.10), whose first byte belongs to exception 4.
const NVIC_ISER: u64 = 0xe000_e100;
const NVIC_IPR: u64 = 0xe000_e400;
const SHPR: u64 = 0xe000_ed18;

/// A level less urgent than all priorities.
const LOWEST: u64 = 0x100;

/// PendSV's exception number.
pub const PENDSV: u64 = 14;

/// Number of the system's exception vectors.
const SYSTEM_VECTORS: u64 = 16;

/// Interrupt Controller Type Register (B3.2.2): number of groups of 32 interrupts beyond the first. A read has no
/// effect. Armv6-M has one group and no such register, which reads 0.
const ICTR: u64 = 0xe000_e004;

/// Vector Table Offset Register (B3.2.5).
const VTOR: u64 = 0xe000_ed08;

/// Interrupt Control and State Register (B3.2.4), and its bits.
const ICSR: u64 = 0xe000_ed04;
const PENDSVSET: u64 = 1 << 28;
const PENDSVCLR: u64 = 1 << 27;

/// Application Interrupt and Reset Control Register (B3.2.6): key 0x05FA in the upper half, bit 2 asks for a reset.
const AIRCR: u64 = 0xe000_ed0c;

/// Value of lr at reset (B1.4.2): the image's first function returns nowhere.
const RESET_LR: u64 = 0xffff_ffff;

/// Whether lr has an EXC_RETURN value: bits 31 to 7 are set and bit 1 is clear (B1.5.8; Armv8-M ARM, EXC_RETURN,
/// whose bits 6, 5 and 0 are clear where the security extension says so). A frame on the process stack (bit 2) never
/// belongs to a handler (bit 3).
fn is_exc_return(address: u64) -> bool {
    address >> 7 == 0x01ff_ffff && address & 2 == 0 && address & 0xc != 4
}

impl<V: Vcpu> Arch<V> for Arm {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn is_exception_return(&self, address: u64) -> Option<bool> {
        Some(is_exc_return(address))
    }

    /// Some kernels create tasks with such an lr.
    fn is_nowhere(&self, address: u64) -> bool {
        address >= 0xffff_fff0 && address != RESET_LR
    }

    fn reset(&self, guest: &mut Guest<V>) -> Option<(u64, u64)> {
        let table = vector_table(guest);
        Some((RESET_LR, guest.memory_word(table, 4)? & !3))
    }

    /// Thumb return addresses have bit 0 set; EXC_RETURN values are kept as they are.
    fn code_address(&self, address: u64) -> u64 {
        if is_exc_return(address) { address } else { address & !1 }
    }

    fn may_be_handler(&self, guest: &mut Guest<V>, pc: u64, may_be_function: bool) -> bool {
        if !may_be_function {
            return false;
        }
        let table = vector_table(guest);
        let groups = 1 + core_register(guest, ICTR).min(15);
        // Words after the table must not be taken for vectors: function pointers often lie there.
        let length = guest.memory_from(table).unwrap_or(0).min(4 * (SYSTEM_VECTORS + 32 * groups));
        let bytes = guest.memory(table, length as usize).unwrap_or_default();
        bytes.as_chunks::<4>().0.iter().skip(2).any(|word| u64::from(u32::from_le_bytes(*word)) == pc | 1)
    }

    /// QEMU translates code for handler mode and for thread mode separately (TBFLAG_M32 HANDLER in target/arm/cpu.h),
    /// and handlers start in handler mode.
    fn can_start_exception(&self, guest: &mut Guest<V>, _: u64) -> bool {
        exception_number(guest) != 0
    }

    /// A handler starts with EXC_RETURN in lr, at the address in its vector (B1.5.6).
    fn is_exception_entry(&self, guest: &mut Guest<V>, pc: u64) -> bool {
        let exception = exception_number(guest);
        if exception == 0 || !is_exc_return(guest.return_register()) {
            return false;
        }
        is_vector(guest, exception, pc)
    }

    fn taken(&self, guest: &mut Guest<V>, pc: u64) -> Option<Taken> {
        // Without an EXC_RETURN value in lr, the handler was called as a function.
        if !is_exc_return(guest.return_register()) {
            return None;
        }
        let Context { sp, return_addr: exc_return, .. } = guest.context(pc);
        let number = exception_number(guest);
        // A handler may continue in another one by a jump, with the same lr.
        let has_come = number != 0 && is_exc_return(exc_return) && is_vector(guest, number, pc);
        has_come.then(|| saved(guest, number, pc, sp, exc_return))
    }

    /// A more urgent exception may come while the registers are being saved.
    fn preempted(&self, guest: &mut Guest<V>, taken: &Taken) -> Option<Taken> {
        let Context { pc: handler, sp: entry_sp, return_addr: exc_return, .. } = taken.interrupted?;
        let below = taken.below.filter(|&below| below != 0)?;
        let has_started = !is_exc_return(exc_return) || !is_vector(guest, below, handler);
        (!has_started).then(|| saved(guest, below, handler, entry_sp, exc_return))
    }

    /// Tasks have the process stack (B1.4.1).
    fn thread_stack_pointer(&self, guest: &mut Guest<V>) -> u64 {
        guest.register("psp")
    }

    /// Handlers and start-up code have the main stack (B1.4.1).
    fn is_main_stack(&self, guest: &mut Guest<V>, sp: u64, _: bool) -> bool {
        guest.known_register("msp") == Some(sp)
    }

    fn exception_level(&self, guest: &mut Guest<V>, number: u64) -> Option<u64> {
        (number > HARD_FAULT).then(|| group(binary_point(guest), priority(guest, number)))
    }

    fn active_exception(&self, guest: &mut Guest<V>) -> Option<u64> {
        Some(exception_number(guest))
    }

    fn unseen(&self, guest: &mut Guest<V>, cfa: u64, exc_return: u64) -> Option<(u64, Context)> {
        let number = exception_number(guest);
        let frame = if exc_return & 4 != 0 { guest.register("psp") } else { cfa };
        Some((number, hardware_frame(guest, frame, exc_return)?))
    }

    /// EXC_RETURN bit 2 selects the stack that the frame is on (B1.5.6).
    fn interrupted(&self, guest: &mut Guest<V>) -> Option<Interrupted> {
        let exc_return = guest.return_register();
        if !is_exc_return(exc_return) {
            return None;
        }
        let frame = guest.register(if exc_return & 4 != 0 { "psp" } else { "msp" });
        let Context { pc, return_addr, .. } = hardware_frame(guest, frame, exc_return)?;
        Some(Interrupted { pc, return_addr })
    }

    fn is_masked(&self, guest: &mut Guest<V>) -> bool {
        ["primask", "faultmask"].iter().any(|name| guest.register(name) & 1 != 0) || guest.register("basepri") != 0
    }

    /// Looks for an enabled interrupt of higher priority than the executing code (B1.5.4) that the masks permit
    /// (B1.4.3).
    fn may_be_interrupted(&self, guest: &mut Guest<V>) -> bool {
        let number = exception_number(guest);
        if number == NMI
            || number == HARD_FAULT
            || ["primask", "faultmask"].iter().any(|name| guest.register(name) & 1 != 0)
        {
            return false;
        }
        let point = binary_point(guest);
        let group = |priority: u64| group(point, priority);
        let masked = match group(guest.register("basepri")) {
            0 => LOWEST,
            level => level,
        };
        let level = if number == 0 { LOWEST } else { group(priority(guest, number)) }.min(masked);
        let ticks = core_register(guest, SYST_CSR) & 3 == 3 && group(priority(guest, SYSTICK)) < level;
        let groups = 1 + core_register(guest, ICTR).min(15);
        ticks
            || (0..groups).any(|index| {
                let enabled = core_register(guest, NVIC_ISER + 4 * index);
                (0..32)
                    .filter(|bit| enabled >> bit & 1 == 1)
                    .any(|bit| group(priority(guest, SYSTEM_VECTORS + 32 * index + bit)) < level)
            })
    }

    fn holds_back(&self, guest: &mut Guest<V>) -> bool {
        let groups = 1 + core_register(guest, ICTR).min(15);
        exception_number(guest) == 0
            && Arch::<V>::is_masked(self, guest)
            && (core_register(guest, SYST_CSR) & 3 == 3
                || (0..groups).any(|index| core_register(guest, NVIC_ISER + 4 * index) != 0))
    }

    fn stored(&self, address: u64, value: u64) -> Option<Stored> {
        match address {
            AIRCR if value >> 16 & 0xffff == 0x05fa && value & 4 != 0 => Some(Stored::Reset),
            ICSR if value & PENDSVSET != 0 => Some(Stored::Pend),
            ICSR if value & PENDSVCLR != 0 => Some(Stored::Unpend),
            _ => None,
        }
    }

    fn fault(&self, guest: &mut Guest<V>, number: u64) -> Option<Vec<(Word, u64)>> {
        if !FAULTS.contains(&number) {
            return None;
        }
        let (address, bytes) = FACTS.fault_registers?;
        // Registers of the core: reading them affects no device.
        let registers = guest.registers.as_mut().and_then(|registers| registers.read_memory(address, bytes));
        Some(
            registers
                .and_then(|registers| Arch::<V>::faults(self, &registers))
                .map_or_else(Vec::new, |words| words.to_vec()),
        )
    }

    fn faults(&self, registers: &[u8]) -> Option<[(Word, u64); 4]> {
        let word = |index: usize| {
            registers.get(index * 4..)?.first_chunk().map(|&bytes| u64::from(u32::from_le_bytes(bytes)))
        };
        Some([
            (Word::FaultCfsr, word(0)?),
            (Word::FaultHfsr, word(1)?),
            (Word::FaultMmfar, word(3)?),
            (Word::FaultBfar, word(4)?),
        ])
    }

    /// Handlers, and threads with CONTROL.nPRIV (B1.4.4) clear, are privileged (`arm_current_el` in
    /// target/arm/cpu.h). QEMU treats a `bkpt` in an IT block as unconditional. An `hlt` in an IT block counts as a
    /// call although it may be skipped: M-profile has no such instruction.
    fn is_semihosting(&self, guest: &mut Guest<V>, insn: &dyn Insn) -> bool {
        let (bytes, len) = insn.bytes();
        decode::is_breakpoint(guest.isa, &bytes[..len])
            && (exception_number(guest) != 0 || guest.register("control") & 1 == 0)
    }
}

/// Number of the exception that the processor executes; 0: none.
fn exception_number(guest: &mut Guest<impl Vcpu>) -> u64 {
    guest.general_register(XPSR) & 0x1ff
}

/// Address of the vector table, read from a register of the core without side effects.
fn vector_table(guest: &mut Guest<impl Vcpu>) -> u64 {
    core_register(guest, VTOR)
}

/// Value of a register of the core; 0 if it does not exist.
fn core_register(guest: &mut Guest<impl Vcpu>, address: u64) -> u64 {
    guest.registers.as_mut().and_then(|registers| registers.read_memory_word(address, 4)).unwrap_or(0)
}

/// Configured priority of an exception; lower values are more urgent.
fn priority(guest: &mut Guest<impl Vcpu>, exception: u64) -> u64 {
    let address = match exception.checked_sub(SYSTEM_VECTORS) {
        Some(interrupt) => NVIC_IPR + interrupt,
        None => SHPR + exception.saturating_sub(4),
    };
    // Armv6-M only supports word access (B3.2.9).
    core_register(guest, address & !3) >> (8 * (address & 3)) & 0xff
}

/// Place in a priority below which its bits do not preempt.
fn binary_point(guest: &mut Guest<impl Vcpu>) -> u64 {
    core_register(guest, AIRCR) >> 8 & 7
}

/// Part of a priority that preempts, by [`binary_point`].
fn group(point: u64, priority: u64) -> u64 {
    priority & 0xff & !((2 << point) - 1)
}

/// Whether an exception's vector leads to `pc`.
fn is_vector(guest: &mut Guest<impl Vcpu>, exception: u64, pc: u64) -> bool {
    let table = vector_table(guest);
    guest.memory_word(table + 4 * exception, 4).is_some_and(|vector| vector & !1 == pc)
}

/// Exception whose handler starts with these values of sp and lr.
fn saved(guest: &mut Guest<impl Vcpu>, number: u64, handler: u64, entry_sp: u64, exc_return: u64) -> Taken {
    let frame = if exc_return & 4 != 0 { guest.register("psp") } else { entry_sp };
    let below = guest.memory_word(frame + 28, 4).unwrap_or(0) & 0x1ff;
    let interrupted = hardware_frame(guest, frame, exc_return);
    Taken { number, handler, entry_sp, saved_sp: frame, interrupted, below: Some(below) }
}

/// Reads the registers that the processor saved at `frame` (B1.5.6 and B1.5.7).
fn hardware_frame(guest: &mut Guest<impl Vcpu>, frame: u64, exc_return: u64) -> Option<Context> {
    let words = guest.memory(frame, 32)?;
    let word = |index: usize| words.get(index * 4..)?.first_chunk().map(|&word| u64::from(u32::from_le_bytes(word)));
    let (second_return_addr, return_addr, pc, xpsr) = (word(4)?, word(5)?, word(6)?, word(7)?);
    // Bit 4 clear: the frame has s0-s15 and FPSCR. Bit 9 of xPSR: one word of padding.
    let frame_bytes = if exc_return & 0x10 == 0 { 26 * 4 } else { 8 * 4 };
    let sp = frame + frame_bytes + if xpsr & 1 << 9 != 0 { 4 } else { 0 };
    let frame_pointer = guest.general_register(FACTS.frame_pointer);
    Some(Context { pc: pc & !1, sp, return_addr, second_return_addr, frame_pointer })
}
