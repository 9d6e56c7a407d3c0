// SPDX-License-Identifier: GPL-2.0-or-later
//! Translations of its own for each vCPU, on a machine whose vCPUs share them.
//!
//! QEMU keys translated blocks by flags of the vCPU (`tcg_cflags` of `CPUState`, include/hw/core/cpu.h). The top 8 bits
//! are the number of the vCPU's cluster (`CF_CLUSTER_MASK`, include/exec/translation-block.h), so that CPUs of different
//! kinds do not execute each other's blocks. A vCPU outside of all clusters has 255 there. Before the first translation
//! each vCPU gets its own index as the number, and generated code may contain the addresses of its counters.
//!
//! No function of QEMU's sets these bits, so the field is searched in the vCPU's object, by `curr_cflags`: it is the only
//! one that has the flags' value, and whose change changes the flags. Without this row each straight line calls back.

use std::ffi::c_void;
use std::mem;

use wire::trick::CLUSTERS;

use super::{symbol, vcpu};

/// `CF_CLUSTER_SHIFT`.
const SHIFT: u32 = 24;

/// Number in the flags of a vCPU outside of all clusters: the low byte of `UNASSIGNED_CLUSTER_INDEX`.
const UNASSIGNED: u32 = 0xff;

/// Words of the vCPU's object that are searched. `CPUState` is its beginning, and the object is longer than this.
const SEARCHED_WORDS: usize = 1024;

/// `curr_cflags` (accel/tcg/internal-common.h): the flags for the lookup of a vCPU's next block.
type Flags = unsafe extern "C" fn(*mut c_void) -> u32;

/// The function of QEMU's that returns a vCPU's flags, and the number of vCPUs that have translations of their own.
pub(crate) struct Clusters {
    flags: Flags,
    apart: u32,
}

impl Clusters {
    /// None: this QEMU is not known, or lacks loadable modules, without which it does not export the function.
    pub(crate) fn find() -> Option<Clusters> {
        symbol(&CLUSTERS, c"current_cpu")?;
        let flags = symbol(&CLUSTERS, c"curr_cflags")?;
        // SAFETY: in the releases of the table's row the function of this name has this type; the program itself
        // exports it and stays loaded.
        let flags = unsafe { mem::transmute::<*mut c_void, Flags>(flags) };
        Some(Clusters { flags, apart: 0 })
    }

    /// Whether each of `vcpus` vCPUs has translations of its own.
    pub(crate) fn are_apart(&self, vcpus: u32) -> bool {
        self.apart == vcpus
    }

    /// Gives the calling thread's vCPU, of this index, translations of its own; before its first one.
    pub(crate) fn part(&mut self, index: u32) {
        let Some(vcpu) = vcpu::current().filter(|_| index < UNASSIGNED) else { return };
        // SAFETY: see `find` for the type; this thread executes the vCPU.
        let flags = || unsafe { (self.flags)(vcpu) };
        let before = flags();
        if before >> SHIFT != UNASSIGNED {
            return;
        }
        let words = vcpu.cast::<u32>();
        let own = before & !(UNASSIGNED << SHIFT) | index << SHIFT;
        let fields = (0..SEARCHED_WORDS).filter(|&at| {
            // SAFETY: the object begins here, lives as long as the program, and is longer than the words searched. Only
            // this thread writes the word that is the flags; another word of this value has it back at once.
            unsafe {
                let word = words.add(at);
                if word.read_volatile() != before {
                    return false;
                }
                word.write_volatile(own);
                let is_field = flags() == own;
                word.write_volatile(before);
                is_field
            }
        });
        if let [field] = fields.collect::<Vec<usize>>()[..] {
            // SAFETY: as above.
            unsafe { words.add(field).write_volatile(own) };
            self.apart += 1;
        }
    }
}
