// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of allocation functions that a run could not follow, by kind.

use crate::image::heap::rule::Kind;

/// Kinds of events that a run's heap lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Whether allocations are missing, so that the true numbers are higher.
    pub allocations: bool,
    /// Whether frees are missing, so that less was held.
    pub frees: bool,
}

impl Lost {
    /// Events that are missing if a function's calls are.
    pub fn of(kind: Kind) -> Lost {
        Lost { allocations: kind == Kind::Alloc, frees: kind == Kind::Free }
    }

    /// Events that are missing in either of the two.
    #[must_use]
    pub fn or(self, other: Lost) -> Lost {
        Lost { allocations: self.allocations || other.allocations, frees: self.frees || other.frees }
    }
}
