// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulated processor. Only this folder distinguishes Arm, RISC-V and AVR.

mod arm;
mod avr;
mod processor;
mod riscv;

use decode::Isa;
use wire::request::{self, Request};

pub use arm::PENDSV;
pub use avr::pair as avr_pair;
use processor::Arch;
pub use processor::{Context, FaultReader, Guest, Insn, Interrupted, MAX_READ_BYTES, Stored, Taken, Vcpu};

/// Processor that the request in a directory names.
pub fn open<V: Vcpu>(request: &Request, directory: &str) -> Guest<V> {
    let (isa, arch): (Isa, &dyn Arch<V>) = match request.isa {
        request::Isa::Riscv32 => (Isa::Riscv32, &riscv::Riscv),
        request::Isa::Riscv64 => (Isa::Riscv64, &riscv::Riscv),
        request::Isa::Riscv32Zc => (Isa::Riscv32Zc, &riscv::Riscv),
        request::Isa::Riscv64Zc => (Isa::Riscv64Zc, &riscv::Riscv),
        request::Isa::ThumbV6m => (Isa::ThumbV6m, &arm::Arm),
        request::Isa::ThumbV7m => (Isa::ThumbV7m, &arm::Arm),
        request::Isa::ThumbV8m => (Isa::ThumbV8m, &arm::Arm),
        request::Isa::AvrPc16 => (Isa::AvrPc16, &avr::PC16),
        request::Isa::AvrPc22 => (Isa::AvrPc22, &avr::PC22),
    };
    Guest::with(isa, arch, request, directory)
}
