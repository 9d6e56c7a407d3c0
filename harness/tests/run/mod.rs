// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of firmware: how they start and end, what they measure, what they allow.

mod asked;
mod avr;
mod avr_cycle_contexts;
mod avr_cycles;
mod avr_devices;
mod avr_hex;
mod avr_waiting;
mod avr_zones;
mod boot;
mod bounds;
#[cfg(target_os = "linux")]
mod bundle;
mod calls;
mod clock;
mod console;
mod contained;
mod cortex_cycles;
mod crashes;
mod cycles;
mod deadline;
mod emulator;
mod endings;
mod formats;
mod host;
mod input;
mod kernels;
mod limit;
mod mcount;
mod mcount_table;
mod memory;
mod overflow;
mod runner;
mod sampling;
mod signals;
mod spans;
mod stack_left;
mod stacks;
mod standstill;
mod stub;
mod text;
mod tricks;
mod tt;
mod waiting;
#[cfg(target_os = "linux")]
mod walls;
mod west;
mod zone_calls;
mod zones;
mod zones_cpus;
