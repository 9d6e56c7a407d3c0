//! QEMU's public plugin header, and nothing else of QEMU's: what it declares ([`raw`]), what differs between its versions
//! ([`versions`]), and what only later ones have ([`later`]).

pub(super) mod block;
pub(super) mod hooks;
pub(super) mod install;
pub(super) mod later;
pub(super) mod raw;
pub(super) mod register;
pub(super) mod versions;
