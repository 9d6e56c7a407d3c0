//! Base machines: machines of QEMU that have a chip's core, and to which the plugin adds the rest of the chip.

/// Processors that a chip may have, each with a machine of QEMU that has the processor. The plugin lays the chip's
/// memory and registers over that machine.
pub(crate) const BASES: [(&str, &str); 4] = [
    ("cortex-m0", "microbit"),
    ("cortex-m3", "mps2-an385"),
    ("cortex-m4", "mps2-an386"),
    ("cortex-m7", "mps2-an500"),
];
