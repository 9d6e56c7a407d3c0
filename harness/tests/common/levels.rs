//! Call stacks in one form, whether they were unwound at a sample or followed call by call.

use harness::analysis::place::Place;
use harness::profile::{Profile, StackFrame};
use wire::definition::{FrameKind, NodeKind, Unknown};
use wire::sample::Sample;

/// One level of a stack, so that both kinds can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Function(u64),
    Exception(u64),
    Unknown(Unknown),
}

fn place(profile: &Profile, address: u64) -> Level {
    Level::Function(Place::of(profile, address).start().unwrap_or(1))
}

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

pub fn followed(profile: &Profile, sample: &Sample) -> Vec<Level> {
    let nodes = profile.path(sample.node);
    let levels = nodes.iter().filter_map(|node| match node.kind {
        NodeKind::Root { .. } => None,
        NodeKind::Function { entry } => Some(place(profile, entry)),
        NodeKind::Exception { number } => Some(Level::Exception(number)),
    });
    levels.collect()
}

pub fn shown(profile: &Profile, levels: &[Level]) -> String {
    let names = levels.iter().map(|level| match *level {
        Level::Function(start) => Place::of(profile, start).to_string(),
        other => format!("{other:x?}"),
    });
    names.collect::<Vec<_>>().join(";")
}
