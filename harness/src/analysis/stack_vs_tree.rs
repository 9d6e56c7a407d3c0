// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison of sampled stacks with the call tree of the same run. At each sample, the unwound functions are compared
//! with the active functions by the tree, which follows each call and return exactly.

use std::collections::BTreeMap;
use std::fmt;

use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

use crate::analysis::owner::Owner;
use crate::profile::{Profile, StackFrame};

/// One level of a stack, in a form common to both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A function, by its first address; 1: code outside of functions.
    Function(u64),
    /// An exception, by its number.
    Exception(u64),
    /// The reason why the rest is not known.
    Unknown(Unknown),
}

/// Kind of disagreement between an unwound stack and the followed calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The stack names the reason why it ends, and is the inner end of the true stack.
    Cut(Unknown),
    /// The stack names the reason why it ends, but is not the inner end of the true stack.
    Stray(Unknown),
    /// The stack is the inner end of the true stack, presented as the whole.
    Short,
    /// The stack shows calls that never happened.
    False,
}

impl How {
    /// Whether the stack is wrong, or presents a part as the whole.
    pub fn is_wrong(self) -> bool {
        !matches!(self, How::Cut(_))
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Cut(why) => write!(f, "cut {}", crate::analysis::stacks::why(*why)),
            How::Stray(why) => write!(f, "stray {}", crate::analysis::stacks::why(*why)),
            How::Short => f.write_str("short"),
            How::False => f.write_str("false"),
        }
    }
}

/// A sample's pair of differing stacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Kind of disagreement.
    pub how: How,
    /// The unwound functions, outermost first, separated by `;`.
    pub unwound: String,
    /// The followed functions, in the same form.
    pub followed: String,
    /// Address of the sampled instruction.
    pub pc: u64,
}

/// Samples whose stacks differ, of a profile made with `--exact`.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// Samples by kind of disagreement.
    pub counts: BTreeMap<How, u64>,
    /// Samples by pair of stacks.
    pub pairs: BTreeMap<Pair, u64>,
}

impl Differences {
    /// Compares the stacks of each sample.
    pub fn of(profile: &Profile) -> Differences {
        let mut differences = Differences::default();
        for sample in &profile.samples {
            let (unwound, followed) = (unwound(profile, sample), followed(profile, sample));
            let Some(how) = how(&unwound, &followed) else { continue };
            *differences.counts.entry(how).or_default() += 1;
            let (unwound, followed) = (shown(profile, &unwound), shown(profile, &followed));
            *differences.pairs.entry(Pair { how, unwound, followed, pc: sample.pc }).or_default() += 1;
        }
        differences
    }

    /// Samples whose stack is wrong, or presents a part as the whole.
    pub fn wrong(&self) -> u64 {
        self.counts.iter().filter(|(how, _)| how.is_wrong()).map(|(_, count)| count).sum()
    }

    /// Samples whose stack ends with a reason and is right up to there.
    pub fn cut(&self) -> u64 {
        self.counts.iter().filter(|(how, _)| !how.is_wrong()).map(|(_, count)| count).sum()
    }
}

fn how(unwound: &[Level], followed: &[Level]) -> Option<How> {
    match unwound {
        _ if unwound == followed => None,
        [Level::Unknown(why), known @ ..] if followed.ends_with(known) => Some(How::Cut(*why)),
        [Level::Unknown(why), ..] => Some(How::Stray(*why)),
        _ if followed.ends_with(unwound) => Some(How::Short),
        _ => Some(How::False),
    }
}

fn place(profile: &Profile, address: u64) -> Level {
    Level::Function(Owner::of(profile, address).start().unwrap_or(1))
}

/// A sample's unwound stack, outermost first.
pub fn unwound(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let mut levels = Vec::new();
    for &&StackFrame { kind, .. } in &profile.stack(sample.stack) {
        match kind {
            FrameKind::Caller { return_addr } => levels.push(place(profile, return_addr - 1)),
            FrameKind::Exception { number, pc, .. } => {
                levels.extend((pc != 0).then(|| place(profile, pc)));
                levels.push(Level::Exception(number));
            }
            FrameKind::Unknown(why) => levels.push(Level::Unknown(why)),
        }
    }
    levels.push(place(profile, sample.pc));
    levels
}

/// A sample's node in the call tree, outermost level first.
pub fn followed(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let nodes = profile.path(sample.node);
    let levels = nodes.iter().filter_map(|node| match node.kind {
        NodeKind::Root { .. } => None,
        NodeKind::Function { entry } => Some(place(profile, entry)),
        NodeKind::Exception { number } => Some(Level::Exception(number)),
    });
    levels.collect()
}

/// A stack as text.
pub fn shown(profile: &Profile, levels: &[Level]) -> String {
    let names = levels.iter().map(|level| match *level {
        Level::Function(start) => Owner::of(profile, start).to_string(),
        other => format!("{other:x?}"),
    });
    names.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_the_inner_end_of_the_truth_and_says_so() {
        let [main, work, leaf] = [1, 2, 3].map(Level::Function);
        let why = Unknown::NoUnwindInfo;
        let truth = [main, work, leaf];
        assert_eq!(how(&truth, &truth), None);
        assert_eq!(how(&[Level::Unknown(why), work, leaf], &truth), Some(How::Cut(why)));
        assert_eq!(how(&[Level::Unknown(why), main, leaf], &truth), Some(How::Stray(why)));
        assert_eq!(how(&[work, leaf], &truth), Some(How::Short));
        assert_eq!(how(&[main, leaf], &truth), Some(How::False));
        assert_eq!(how(&[leaf, work, leaf], &truth), Some(How::False));
        assert!(!How::Cut(why).is_wrong());
        assert!([How::Stray(why), How::Short, How::False].into_iter().all(How::is_wrong));
    }
}
