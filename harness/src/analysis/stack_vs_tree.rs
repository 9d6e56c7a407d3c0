//! Sampled stacks against the call tree of the same run: at each sample the functions that were unwound, and those
//! that every call and return, followed one by one, left there.

use std::collections::BTreeMap;
use std::fmt;

use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

use crate::analysis::place::Place;
use crate::profile::{Profile, StackFrame};

/// One level of a stack, in a form that both kinds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A function, by its first address; 1: what is in none.
    Function(u64),
    /// An exception, by its number.
    Exception(u64),
    /// Why the rest is not known.
    Unknown(Unknown),
}

/// How an unwound stack differs from what calls and returns left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It says why it ends, and what it shows is the inner end of the truth.
    Cut(Unknown),
    /// It says why it ends, but what it shows is not the inner end of the truth.
    Stray(Unknown),
    /// It shows the inner end of the truth as if that were all.
    Short,
    /// It shows what never was.
    False,
}

impl How {
    /// Whether what is shown is not the truth, or not said to be a part of it.
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

/// A sample's stack that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// How.
    pub how: How,
    /// The functions that were unwound, outermost first, with `;` between them.
    pub unwound: String,
    /// Those that were followed.
    pub followed: String,
    /// The sample's instruction.
    pub pc: u64,
}

/// A profile's samples whose stacks differ. It must have been made with `--exact`.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// How many samples, and how.
    pub counts: BTreeMap<How, u64>,
    /// The same by the stacks themselves.
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

    /// Samples whose stack is not the truth, or not said to be a part of it.
    pub fn wrong(&self) -> u64 {
        self.counts.iter().filter(|(how, _)| how.is_wrong()).map(|(_, count)| count).sum()
    }

    /// Samples whose stack says that it is not all.
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
    Level::Function(Place::of(profile, address).start().unwrap_or(1))
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

/// A sample's place in the call tree, outermost first.
pub fn followed(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let nodes = profile.path(sample.node);
    let levels = nodes.iter().filter_map(|node| match node.kind {
        NodeKind::Root { .. } => None,
        NodeKind::Function { entry } => Some(place(profile, entry)),
        NodeKind::Exception { number } => Some(Level::Exception(number)),
    });
    levels.collect()
}

/// A stack in words.
pub fn shown(profile: &Profile, levels: &[Level]) -> String {
    let names = levels.iter().map(|level| match *level {
        Level::Function(start) => Place::of(profile, start).to_string(),
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
