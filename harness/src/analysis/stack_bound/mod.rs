// SPDX-License-Identifier: MIT OR Apache-2.0
//! Most stack that firmware can need, from its machine code: for each task, for the main stack with nested exceptions.
//! Each number says whether it is a bound, an estimate, or has no bound, and why.

mod function;
mod graph;
mod linker;
mod program;
mod roots;
mod rules;
mod su;
mod targets;

pub use program::Program;
pub use roots::{Row, rows};
pub use rules::Rules;
pub use su::{Su, Witness};

/// Certainty of a number of bytes, the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// No run can need more.
    #[default]
    Bounded,
    /// Some indirect calls are known only from runs: another run may reach more.
    Estimated,
    /// Nothing bounds it: the number is the part that is known.
    Unbounded,
}

impl Certainty {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Bounded => "bounded",
            Certainty::Estimated => "estimated",
            Certainty::Unbounded => "unbounded",
        }
    }
}

/// Function of a path, with the bytes that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Name.
    pub function: String,
    /// Bytes that it holds while it calls the next function; of the last one, its most.
    pub bytes: u64,
}

/// Most stack from a function on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Bytes.
    pub bytes: u64,
    /// Certainty of the number.
    pub certainty: Certainty,
    /// Deepest path, outermost first. It ends where recursion begins.
    pub path: Vec<Step>,
    /// Reasons why the number is not a bound, each with what to state.
    pub reasons: Vec<String>,
}

impl Bound {
    /// Bound of nothing at all.
    fn nothing() -> Bound {
        Bound { bytes: 0, certainty: Certainty::Bounded, path: Vec::new(), reasons: Vec::new() }
    }

    /// Adds reasons that are not among its own.
    fn add_reasons(&mut self, reasons: &[String]) {
        let new: Vec<String> = reasons.iter().filter(|reason| !self.reasons.contains(reason)).cloned().collect();
        self.reasons.extend(new);
    }
}
