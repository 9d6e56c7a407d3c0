//! QEMU as safe calls.

mod api;

pub(crate) use api::*;
