//! Tests of the plugin's logic without QEMU: random programs are compared with models that are too simple to be
//! wrong.

mod calls;
mod counting;
mod due;
mod fake;
mod lives;
mod marks;
mod polls;
mod predictions;
mod recent;
mod shadow;
mod stacks;
mod zones;
