//! The plugin's logic, proved without QEMU: random programs against models that are too simple to be wrong.

mod calls;
mod counting;
mod due;
mod fake;
mod marks;
mod polls;
mod predictions;
mod recent;
mod shadow;
mod stacks;
mod zones;
