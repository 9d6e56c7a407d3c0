// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plugin's use of QEMU beyond its plugin API: functions, variables and layouts of QEMU's own, which may change
//! with any release. One row for each use, with the releases of which the source was examined and on which the tests
//! were run.
//!
//! The harness asks QEMU for its version and puts it into the request ([`crate::request::Request::qemu`]). On a
//! version without a row here the plugin uses the plugin API alone. `docs/qemu.md` describes the consequences.

/// A release of QEMU: 10.2 is `(10, 2)`.
pub type Release = (u32, u32);

/// A use of QEMU beyond its plugin API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trick {
    /// Name of the use, one word.
    pub name: &'static str,
    /// QEMU's symbols that the use needs. Only a QEMU built with loadable modules exports them.
    pub symbols: &'static [&'static str],
    /// Releases in which these symbols have the expected meaning.
    pub looked_at: &'static [Release],
    /// Features that a run lacks without the use.
    pub without_it: &'static str,
}

/// First `micro` number of versions under development: 11.0.50 is not a release, and neither is the release candidate
/// 11.0.90.
const DEVELOPMENT: u32 = 50;

impl Trick {
    /// Whether the use is permitted in a QEMU of this version: major, minor, micro.
    pub fn is_for(&self, [major, minor, micro]: [u32; 3]) -> bool {
        micro < DEVELOPMENT && self.looked_at.contains(&(major, minor))
    }
}

/// Whether the table permits any use in this version.
pub fn knows(version: [u32; 3]) -> bool {
    TABLE.iter().any(|trick| trick.is_for(version))
}

/// All releases since the first whose plugin API is sufficient.
const ALL: &[Release] = &[(9, 2), (10, 0), (10, 1), (10, 2), (11, 0), (11, 1)];

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident = $trick:expr;)*) => {
        $($(#[$doc])* pub const $name: Trick = $trick;)*

        /// All rows.
        pub const TABLE: &[Trick] = &[$($name),*];
    };
}

table! {
    /// QEMU's object of the vCPU that executes.
    EXECUTING = Trick {
        name: "executing",
        symbols: &["current_cpu", "qemu_get_cpu"],
        looked_at: ALL,
        without_it: "several CPUs of kinds of their own (mps2-an521) are refused",
    };
    /// Translations of its own for each vCPU, on a machine whose vCPUs share them.
    CLUSTERS = Trick {
        name: "clusters",
        symbols: &["current_cpu", "curr_cflags"],
        looked_at: ALL,
        without_it: "a run of several alike CPUs (virt with -smp) takes some ten times as long",
    };
    /// Registers read from the vCPU's object, at a place that is found by comparison.
    REGISTERS = Trick {
        name: "registers",
        symbols: &["current_cpu"],
        looked_at: ALL,
        without_it: "reading registers takes several times as long; a main stack that was left is seen in samples only",
    };
    /// Physical addresses, if the plugin API has no function for them.
    PAGES = Trick {
        name: "pages",
        symbols: &["current_cpu", "cpu_get_phys_page_debug"],
        // From 10.1 on the API has such a function.
        looked_at: &[(9, 2), (10, 0)],
        without_it: "before QEMU 10.1, arguments of semihosting calls by RISC-V firmware outside of machine mode \
                     are not read",
    };
    /// Work queued for the vCPU, so that a wait begins only when all instructions before it have been accounted for.
    WAITS = Trick {
        name: "waits",
        symbols: &["bql_locked", "bql_lock_impl", "bql_unlock"],
        looked_at: ALL,
        without_it: "each wait for an interrupt takes several times as long",
    };
    /// Virtual time of the instructions that QEMU has accounted for.
    SLEEP = Trick {
        name: "sleep",
        symbols: &["current_cpu", "qemu_clock_get_ns"],
        looked_at: ALL,
        without_it: "the summary and a timeline do not say how long the machine sleeps",
    };
    /// The machine's clock, moved on by what instructions take beyond their share of it.
    PACE = Trick {
        name: "pace",
        symbols: &["current_cpu", "timers_state", "icount_update", "cpu_exit", "cpu_loop_exit_restore"],
        // The order of the clock's fields was looked at in this release only.
        looked_at: &[(10, 0)],
        without_it: "timers tick by instructions, with --cycles too",
    };
    /// Semihosting's clocks, answered by the machine's time in place of the host's.
    CLOCKS = Trick {
        name: "clocks",
        symbols: &["do_common_semihosting", "qemu_clock_get_ns", "clock_start"],
        looked_at: ALL,
        without_it: "semihosting's clocks are the host's, and such a run does not repeat",
    };
    /// Turns of several vCPUs, which QEMU's own housekeeping does not end.
    TURNS = Trick {
        name: "turns",
        symbols: &["rcu_add_force_rcu_notifier", "rcu_remove_force_rcu_notifier"],
        looked_at: ALL,
        without_it: "from QEMU 10.2 on, several CPUs take their turns at other instructions in another run",
    };
    /// Timers of virtual time that are set to never, taken off QEMU's list.
    TIMERS = Trick {
        name: "timers",
        symbols: &["bql_locked", "bql_lock_impl", "bql_unlock", "timer_init_full", "timer_mod_ns", "timer_del"],
        looked_at: ALL,
        without_it: "firmware that waits for input on sifive_e may keep QEMU busy without an end of the run",
    };
    /// AVR's state beyond its registers: whether an instruction that found a device starts again.
    AVR_STATE = Trick {
        name: "avr",
        symbols: &["current_cpu", "cpu_exit", "cpu_io_recompile", "cpu_loop_exit_restore"],
        // The state's layout was looked at in this release only.
        looked_at: &[(10, 0)],
        without_it: "AVR firmware (Arduino Uno) is refused",
    };
    /// Memory, registers, timers and interrupts of a chip, added to the machine that QEMU has made.
    DEVICES = Trick {
        name: "devices",
        symbols: &[
            "qemu_add_machine_init_done_notifier",
            "object_get_root",
            "object_child_foreach_recursive",
            "object_dynamic_cast",
            "object_property_get_link",
            "object_property_find",
            "memory_region_init_ram",
            "memory_region_init_rom_device",
            "memory_region_init_alias",
            "memory_region_init_io",
            "memory_region_add_subregion_overlap",
            "memory_region_get_ram_ptr",
            "memory_region_flush_rom_device",
            "timer_init_full",
            "timer_mod_ns",
            "timer_del",
            "qemu_clock_get_ns",
            "qdev_get_gpio_in_named",
            "qemu_set_irq",
            "qemu_allocate_irq",
            "clock_set",
            "clock_propagate",
            "qemu_chr_find",
            "qemu_chr_fe_init",
            "qemu_chr_fe_set_handlers",
            "qemu_chr_fe_write_all",
            "bql_locked",
            "bql_lock_impl",
            "bql_unlock",
        ],
        looked_at: ALL,
        without_it: "--chip is refused",
    };
    /// Control and status registers of a RISC-V chip's own.
    CSRS = Trick {
        name: "csrs",
        symbols: &["riscv_set_csr_ops", "qemu_clock_get_ns"],
        // The structure that it takes was looked at in this release only.
        looked_at: &[(10, 0)],
        without_it: "registers that only a RISC-V chip's processor has are illegal, and its cycles count nanoseconds",
    };
    /// Guest memory that a debugger writes.
    WRITES = Trick {
        name: "writes",
        symbols: &["current_cpu", "cpu_memory_rw_debug"],
        looked_at: ALL,
        without_it: "a debugger cannot write memory",
    };
    /// Two editions of translated code: one with breakpoints in reach and one without.
    EDITIONS = Trick {
        name: "editions",
        symbols: &["current_cpu", "qemu_loglevel", "curr_cflags", "cpu_exit"],
        looked_at: ALL,
        without_it: "a debugged run is several times as slow",
    };
    /// Copies of the whole process, as checkpoints.
    COPIES = Trick {
        name: "copies",
        symbols: &[
            "bql_locked",
            "bql_lock_impl",
            "bql_unlock",
            "qemu_get_aio_context",
            "aio_bh_poll",
            "icount_start_warp_timer",
            "qemu_clock_run_all_timers",
            "rcu_register_thread",
        ],
        looked_at: ALL,
        without_it: "a debugger goes back by running the firmware again from reset",
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_releases_that_were_looked_at_get_a_trick() {
        for version in [[9, 2, 0], [10, 0, 2], [10, 0, 13], [10, 1, 0], [10, 2, 1], [11, 0, 3], [11, 1, 3]] {
            assert!(knows(version), "{version:?}");
        }
        for version in [[9, 1, 3], [10, 3, 0], [11, 0, 50], [11, 1, 90], [11, 2, 0], [12, 0, 0], [99, 1, 0]] {
            assert!(!knows(version), "{version:?}");
            assert!(TABLE.iter().all(|trick| !trick.is_for(version)), "{version:?}");
        }
        assert!(PAGES.is_for([10, 0, 2]) && !PAGES.is_for([10, 1, 0]));
    }

    #[test]
    fn each_row_says_all_that_there_is_to_say() {
        for (index, trick) in TABLE.iter().enumerate() {
            assert!(!trick.symbols.is_empty() && !trick.looked_at.is_empty() && !trick.without_it.is_empty());
            assert!(TABLE[..index].iter().all(|other| other.name != trick.name), "{}", trick.name);
            assert!(trick.looked_at.is_sorted(), "{}", trick.name);
        }
    }
}
