// SPDX-License-Identifier: MIT OR Apache-2.0
//! Division of exact instructions over the call stacks in which they ran.
//!
//! Counts per instruction are exact, but have no callers; samples have callers, but are few. So the exact count of a
//! piece of code (a leaf: instructions that a format does not distinguish) is divided over its callers in proportion
//! to its samples, into whole numbers with the same sum. With the exact call tree, each node has an exact count. That
//! count is divided over the leaves of the node's function, so that the sum of each leaf over all nodes stays exact,
//! too. Cycles are divided in the same way, where they are known; in the exact tree those up to an interrupt's vector are
//! the interrupt's, not those of the vector.
//!
//! This module does not handle names. A context consists of numbers that the profile gives to tasks, stacks and
//! nodes, and each format has its own keys for leaves.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use rustc_hash::FxHashMap;
use wire::definition::NodeKind;
use wire::sample::Sample;

use crate::analysis::cycles;
use crate::analysis::owner::Owner;
use crate::profile::Profile;

/// The call stack that code ran in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Context {
    /// No stacks were recorded.
    Alone,
    /// Neither this code nor the rest of its function was sampled.
    NotSampled,
    /// The callers of a sample.
    Stack {
        /// Number of the task, as in a sample.
        task: u32,
        /// Number of the stack, as in a sample.
        stack: u32,
    },
    /// Number of a node of the exact call tree.
    Node(u32),
}

impl Context {
    fn of(profile: &Profile, sample: &Sample) -> Context {
        match sample.node {
            0 if profile.facts.max_depth.is_none() => Context::Alone,
            0 => Context::Stack { task: sample.task, stack: sample.stack },
            node => Context::Node(node),
        }
    }
}

/// Instructions of a leaf in one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// The leaf; None: instructions of a node that is not a function.
    pub leaf: Option<u32>,
    /// The context that it ran in.
    pub context: Context,
    /// Instructions. All shares add up to those of the profile.
    pub insns: u64,
    /// Samples. All shares add up to those of the profile.
    pub samples: u64,
    /// Cycles. All shares add up to those of the profile; 0: they are not known.
    pub cycles: u64,
}

impl Share {
    /// Whether it is the way to an interrupt's vector, which has cycles and no instructions.
    pub fn is_entry(&self) -> bool {
        self.leaf.is_none() && self.insns == 0 && self.samples == 0
    }
}

/// Executed code of a profile in pieces that one format does not divide further (instructions, lines or functions).
#[derive(Clone, Debug)]
pub struct Leaves<K> {
    /// The format's key of each leaf, in the order of their first addresses.
    pub keys: Vec<K>,
    /// Sampled pairs of leaf and context, with the number of samples.
    pub sampled: Vec<(u32, Context, u64)>,
    /// Index of each sample's pair, in the profile's order.
    pub of_samples: Vec<u32>,
    /// Owner that each leaf belongs to.
    places: Vec<PlaceKey>,
    /// Exact instructions of each leaf.
    insns: Vec<u64>,
    /// Exact cycles of each leaf; 0: they are not known.
    cycles: Vec<u64>,
}

/// First address of a function or range; None: the boot ROM, the only place without one.
type PlaceKey = Option<u64>;

fn place(profile: &Profile, pc: u64) -> PlaceKey {
    Owner::of(profile, pc).start()
}

impl<K: Clone + Eq + Hash> Leaves<K> {
    /// Makes one leaf of all addresses with the same key. Addresses with the same key must be in one function.
    pub fn new(profile: &Profile, mut key: impl FnMut(u64) -> K) -> Leaves<K> {
        let mut insns = profile.insns();
        for pc in profile.samples_by_pc().into_keys() {
            insns.entry(pc).or_default();
        }
        let cycles = cycles::by_pc(profile).unwrap_or_default();
        let mut leaves = Leaves {
            keys: Vec::new(),
            sampled: Vec::new(),
            of_samples: Vec::with_capacity(profile.samples.len()),
            places: Vec::new(),
            insns: Vec::new(),
            cycles: Vec::new(),
        };
        let mut of_pc: FxHashMap<u64, u32> = FxHashMap::default();
        let mut numbers: HashMap<K, u32> = HashMap::new();
        for (pc, insns) in insns {
            let next = leaves.keys.len() as u32;
            let number = *numbers.entry(key(pc)).or_insert_with_key(|key| {
                leaves.keys.push(key.clone());
                leaves.places.push(place(profile, pc));
                leaves.insns.push(0);
                leaves.cycles.push(0);
                next
            });
            of_pc.insert(pc, number);
            leaves.insns[number as usize] += insns;
            leaves.cycles[number as usize] += cycles.get(&pc).copied().unwrap_or(0);
        }
        // There may be millions of samples, but only a few thousand pairs.
        let mut found: FxHashMap<(u32, Context), u32> = FxHashMap::default();
        for sample in &profile.samples {
            let (leaf, context) = (of_pc[&sample.pc], Context::of(profile, sample));
            let index = *found.entry((leaf, context)).or_insert_with(|| {
                leaves.sampled.push((leaf, context, 0));
                leaves.sampled.len() as u32 - 1
            });
            leaves.sampled[index as usize].2 += 1;
            leaves.of_samples.push(index);
        }
        leaves
    }

    /// All instructions, divided over leaves and contexts; sorted by these.
    pub fn shares(&self, profile: &Profile) -> Vec<Share> {
        let mut shares = if profile.tree.is_empty() { self.by_samples(profile) } else { self.by_tree(profile) };
        shares.sort_unstable();
        shares
    }

    fn by_samples(&self, profile: &Profile) -> Vec<Share> {
        // Samples by context, for each leaf and for each function.
        type Contexts = BTreeMap<Context, u64>;
        let mut of_leaf: Vec<Contexts> = vec![Contexts::new(); self.keys.len()];
        let mut of_place: BTreeMap<PlaceKey, Contexts> = BTreeMap::new();
        for &(leaf, context, samples) in &self.sampled {
            of_leaf[leaf as usize].insert(context, samples);
        }
        for (contexts, place) in of_leaf.iter().zip(&self.places) {
            let sum = of_place.entry(*place).or_default();
            for (&context, samples) in contexts {
                *sum.entry(context).or_default() += samples;
            }
        }
        let none = if profile.facts.max_depth.is_none() { Context::Alone } else { Context::NotSampled };
        let mut shares = Vec::new();
        for (leaf, (&insns, &cycles)) in self.insns.iter().zip(&self.cycles).enumerate() {
            let own = &of_leaf[leaf];
            let contexts = if own.is_empty() { &of_place[&self.places[leaf]] } else { own };
            if contexts.is_empty() {
                shares.push(Share { leaf: Some(leaf as u32), context: none, insns, samples: 0, cycles });
                continue;
            }
            let weights: Vec<u64> = contexts.values().copied().collect();
            let parts = divide(insns, &weights).into_iter().zip(divide(cycles, &weights));
            for (&context, (insns, cycles)) in contexts.keys().zip(parts) {
                let samples = own.get(&context).copied().unwrap_or(0);
                if insns > 0 || samples > 0 || cycles > 0 {
                    shares.push(Share { leaf: Some(leaf as u32), context, insns, samples, cycles });
                }
            }
        }
        shares
    }

    fn by_tree(&self, profile: &Profile) -> Vec<Share> {
        let mut of_place: BTreeMap<PlaceKey, Vec<u32>> = BTreeMap::new();
        for (leaf, place) in self.places.iter().enumerate().filter(|&(leaf, _)| self.insns[leaf] > 0) {
            of_place.entry(*place).or_default().push(leaf as u32);
        }
        let mut sums: BTreeMap<(Option<u32>, Context), Share> = BTreeMap::new();
        let mut add = |leaf: Option<u32>, context: Context, count: fn(&mut Share) -> &mut u64, number: u64| {
            let none = Share { leaf, context, insns: 0, samples: 0, cycles: 0 };
            *count(sums.entry((leaf, context)).or_insert(none)) += number;
        };
        let mut insns = Rest::new(&self.insns);
        let mut cycles = Rest::new(&self.cycles);
        for (number, node) in (1..).zip(&profile.tree) {
            let place = match node.kind {
                NodeKind::Function { entry } => Some(place(profile, entry)),
                // Instructions before the first call are the boot ROM's, if there is one.
                _ => (number == 1).then_some(None),
            };
            let context = Context::Node(number);
            let leaves = place.and_then(|place| of_place.get(&place)).map_or(&[][..], Vec::as_slice);
            // Code without a name may also have run in this node.
            let is_bounded = place.is_some_and(|place| place.is_none());
            for (leaf, insns) in insns.of_node(node.insns, leaves, is_bounded) {
                add(leaf, context, |share| &mut share.insns, insns);
            }
            for (leaf, cycles) in cycles.of_node(node.cycles, leaves, is_bounded) {
                add(leaf, context, |share| &mut share.cycles, cycles);
            }
        }
        for &(leaf, context, samples) in &self.sampled {
            add(Some(leaf), context, |share| &mut share.samples, samples);
        }
        sums.into_values().collect()
    }
}

/// Counts of the leaves that have not been given to a node of the exact tree yet. Dividing only these keeps the sums of
/// leaves and nodes exact.
struct Rest<'a> {
    whole: &'a [u64],
    left: Vec<u64>,
}

impl Rest<'_> {
    fn new(whole: &[u64]) -> Rest<'_> {
        Rest { whole, left: whole.to_vec() }
    }

    /// Divides a node's count over the leaves of its function; None: the rest, which belongs to no leaf.
    /// `is_bounded`: the leaves get no more than they have.
    fn of_node(&mut self, count: u64, leaves: &[u32], is_bounded: bool) -> Vec<(Option<u32>, u64)> {
        if count == 0 {
            return Vec::new();
        }
        let of = |counts: &[u64]| -> Vec<u64> { leaves.iter().map(|&leaf| counts[leaf as usize]).collect() };
        let weights = match of(&self.left) {
            left if left.iter().sum::<u64>() >= count => left,
            // The tree is not exact.
            _ => of(self.whole),
        };
        let given = match weights.iter().sum::<u64>() {
            0 => 0,
            sum if is_bounded => count.min(sum),
            _ => count,
        };
        let parts = leaves.iter().zip(divide(given, &weights)).map(|(&leaf, count)| (Some(leaf), count));
        let parts: Vec<_> = parts.chain([(None, count - given)]).filter(|&(_, count)| count > 0).collect();
        for &(leaf, count) in &parts {
            let Some(left) = leaf.and_then(|leaf| self.left.get_mut(leaf as usize)) else { continue };
            *left = left.saturating_sub(count);
        }
        parts
    }
}

/// Divides `whole` in proportion to weights into whole numbers with that sum. The remainder goes to the largest
/// fractions, one each; of equal fractions the first comes first.
pub(crate) fn divide(whole: u64, weights: &[u64]) -> Vec<u64> {
    // Cycles, where they are not known.
    if whole == 0 {
        return vec![0; weights.len()];
    }
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum::<u128>().max(1);
    let exact = |&weight: &u64| u128::from(whole) * u128::from(weight);
    let mut shares: Vec<u64> = weights.iter().map(|weight| (exact(weight) / sum) as u64).collect();
    let left = whole - shares.iter().sum::<u64>();
    if left > 0 {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|&index| (std::cmp::Reverse(exact(&weights[index]) % sum), index));
        for index in order.into_iter().take(left as usize) {
            shares[index] += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_follow_the_weights() {
        assert_eq!(divide(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(divide(7, &[5, 2]), [5, 2]);
        assert_eq!(divide(3, &[1, 1000]), [0, 3]);
        assert_eq!(
            divide(u64::MAX, &[u64::MAX, 1, u64::MAX]).iter().map(|&n| u128::from(n)).sum::<u128>(),
            u64::MAX.into()
        );
    }
}
