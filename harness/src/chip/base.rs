//! Base machines: the machine of QEMU that has a chip's core, and is completed to the chip.

/// Processors that a chip may have, each with a machine of QEMU's that has the processor. A chip's memory and
/// registers are laid over that machine.
pub(crate) const BASES: [(&str, &str); 4] = [
    ("cortex-m0", "microbit"),
    ("cortex-m3", "mps2-an385"),
    ("cortex-m4", "mps2-an386"),
    ("cortex-m7", "mps2-an500"),
];
