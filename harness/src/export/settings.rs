//! What a user may choose of an export, in one value that every format is given.

use std::num::NonZeroU32;

use crate::analysis::stacks::View;

/// How an export is written, where formats leave a choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How stacks are shown.
    pub view: View,
    /// Instructions per second, where a format has seconds; None: the machine's virtual clock.
    pub clock_hz: Option<NonZeroU32>,
    /// Phases are apart, where a format can have them so.
    pub by_phase: bool,
}
