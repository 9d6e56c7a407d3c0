//! Calls of allocation functions that a run could not follow, by kind.

use crate::image::heap::rule::Kind;

/// What a run's heap lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Calls that allocate: what was asked for and held is more.
    pub allocations: bool,
    /// Calls that free: what was held is less.
    pub frees: bool,
}

impl Lost {
    /// What a function's calls lack where they are lost.
    pub fn of(kind: Kind) -> Lost {
        Lost { allocations: kind == Kind::Alloc, frees: kind == Kind::Free }
    }

    /// Both together.
    #[must_use]
    pub fn or(self, other: Lost) -> Lost {
        Lost { allocations: self.allocations || other.allocations, frees: self.frees || other.frees }
    }
}
