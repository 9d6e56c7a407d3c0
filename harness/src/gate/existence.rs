// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reasons why an assertion has no number, and whether the names in it exist at all: a typo is told from a function or an
//! interrupt that did not come.

use std::collections::BTreeSet;

use crate::analysis::metrics::Subject;
use crate::analysis::stacks;
use crate::profile::Profile;
use crate::text::near::nearest;

/// An unknown name in an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// Kind of the named thing; None: a source file or an interrupt, of which baselines keep no numbers.
    pub of: Option<Subject>,
    /// The name.
    pub name: String,
}

/// Reason why there is no number for an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmeasured {
    /// The reason, as a sentence.
    pub why: String,
    /// Name that neither the run nor its image has.
    pub unknown: Option<UnknownName>,
}

impl Unmeasured {
    /// A name that does not exist.
    pub fn unknown(of: impl Into<Option<Subject>>, name: &str, why: impl Into<String>) -> Unmeasured {
        Unmeasured { why: why.into(), unknown: Some(UnknownName { of: of.into(), name: name.to_owned() }) }
    }
}

impl From<String> for Unmeasured {
    fn from(why: String) -> Unmeasured {
        Unmeasured { why, unknown: None }
    }
}

/// Lookup of a function in the image; the error suggests what to type instead.
pub type Exists<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Checks that the image has a function of this name, which never ran; `keys` are the profile's functions for the name.
///
/// # Errors
/// When it has not.
pub fn function_exists(exists: Exists<'_>, name: &str, keys: &BTreeSet<String>) -> Result<(), Unmeasured> {
    exists(name).map_err(|why| match keys.is_empty() {
        true => Unmeasured::unknown(Subject::Function, name, why),
        false => Unmeasured::from(why),
    })
}

/// Checks that an interrupt of this name can exist: it came, the architecture has it, or it has a handler.
///
/// # Errors
/// When it cannot.
pub fn interrupt_exists(profile: &Profile, name: &str) -> Result<(), Unmeasured> {
    let known = stacks::Exceptions::new(profile).names();
    // Rust's handlers have the names of their interrupts; other interrupts may have only a number.
    let can_come = || name.parse::<u64>().is_ok() || profile.names.find(name).is_ok();
    if known.iter().any(|known| stacks::is_interrupt(known, name)) || can_come() {
        return Ok(());
    }
    let bare: Vec<&str> = known.iter().flat_map(|known| stacks::words_of(known)).collect();
    let hint =
        nearest(name, bare.into_iter()).map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
    Err(Unmeasured::unknown(None, name, format!("no interrupt is called {name}{hint}")))
}
