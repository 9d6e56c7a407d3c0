//! The emulated processor. Arm and RISC-V are told apart here and nowhere above.

mod arm;
mod processor;
mod riscv;

use decode::Isa;
use wire::request::{self, Request};

pub(crate) use arm::PENDSV;
use processor::Arch;
pub(crate) use processor::{Context, FaultReader, Guest, Interrupted, Stored, Taken};

/// The processor that the request in a directory names.
pub(crate) fn open(request: &Request, directory: &str) -> Guest {
    let (isa, arch): (Isa, &dyn Arch) = match request.isa {
        request::Isa::Riscv32 => (Isa::Riscv32, &riscv::Riscv),
        request::Isa::Riscv64 => (Isa::Riscv64, &riscv::Riscv),
        request::Isa::ThumbV6m => (Isa::ThumbV6m, &arm::Arm),
        request::Isa::ThumbV7m => (Isa::ThumbV7m, &arm::Arm),
        request::Isa::ThumbV8m => (Isa::ThumbV8m, &arm::Arm),
    };
    Guest::with(isa, arch, request, directory)
}
