// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's own functions, variables and layouts outside of the plugin API, which a release may change: one file for
//! each row of the table ([`wire::trick`]). All are looked up by [`symbol`], which returns None if the row does not
//! cover this QEMU. Each file says how the plugin behaves without its row.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use wire::trick::Trick;

pub(super) mod accounted;
pub(super) mod avr;
pub(super) mod busy;
pub(super) mod clusters;
mod csr;
pub(super) mod device;
pub(super) mod editions;
pub(super) mod fork;
pub(super) mod leave;
mod lock;
pub(super) mod pace;
pub(super) mod page;
pub(super) mod register_file;
pub(super) mod timers;
pub(super) mod turns;
pub(super) mod vcpu;
pub(super) mod virtual_time;
pub(super) mod write;

/// QEMU's version, as harness passes it. None: nothing in this module may be used.
static QEMU: OnceLock<Option<[u32; 3]>> = OnceLock::new();

/// Sets QEMU's version; must come before any other use of this module.
pub(crate) fn choose(qemu: Option<[u32; 3]>) {
    QEMU.get_or_init(|| qemu);
}

/// Whether a trick may be used with this QEMU.
fn is_on(trick: &Trick) -> bool {
    QEMU.get().copied().flatten().is_some_and(|version| trick.is_for(version))
}

/// One of a trick's symbols. None: this QEMU does not export it, the trick may not be used, or the table does not
/// list it.
fn symbol(trick: &Trick, name: &CStr) -> Option<*mut c_void> {
    let is_named = trick.symbols.iter().any(|known| known.as_bytes() == name.to_bytes());
    if is_named && is_on(trick) { super::symbols::symbol(name) } else { None }
}
