// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits on numbers of which only an interval is known: cycles of cores without public RTL. A limit is crossed if the whole interval
//! is beyond it, and undecided if a part of it is.

use std::cmp::Ordering;

use crate::analysis::cycles;
use crate::analysis::lookup;
use crate::analysis::metrics::{Key, Metric, Metrics};
use crate::profile::Profile;

/// Answer to whether something holds of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds for each number that is possible.
    Yes,
    /// It holds for none.
    No,
    /// It holds for some.
    Perhaps,
}

/// Fewest and most of a run's number, or of the number of the functions that a name means; None: the number is proved, or is not
/// that of functions with this name.
pub fn interval(
    profile: &Profile,
    metrics: &Metrics,
    metric: Metric,
    (name, number): (&str, u64),
) -> Option<(u64, u64)> {
    let whole = cycles::interval(profile)?;
    match metric {
        Metric::Cycles => Some(whole),
        Metric::SelfCycles => {
            let names = lookup::keys(profile, metrics, name).unwrap_or_default();
            let is_shown = |key: &Key| format!("{} ({})", key.name, key.file) == name;
            let is_meant: [&dyn Fn(&Key) -> bool; 3] =
                [&is_shown, &|key| key.name == name && key.file.is_empty(), &|key| {
                    key.name == name || names.contains(&key.name)
                }];
            // Namesakes are told apart where a number is that of one, and added up where a name means them all.
            is_meant.into_iter().find_map(|is_meant| {
                let (nominal, interval) = cycles::sum_where(profile, |pc| is_meant(&Key::written_at(profile, pc).0));
                (nominal == number).then_some(interval)
            })
        }
        _ => None,
    }
}

/// Answer of a comparison with a value, if the number compares with it by the first at least, and by the second at most.
pub fn compared((least, most): (Ordering, Ordering), holds: impl Fn(Ordering) -> bool) -> Answer {
    let possible = [Ordering::Less, Ordering::Equal, Ordering::Greater];
    let possible = || possible.into_iter().filter(|order| (least..=most).contains(order));
    match (possible().any(&holds), possible().all(&holds)) {
        (_, true) => Answer::Yes,
        (false, _) => Answer::No,
        (true, false) => Answer::Perhaps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_decided_only_if_it_is_for_the_whole_interval() {
        use Ordering::{Equal, Greater, Less};
        for (interval, below, equal) in [
            ((Less, Less), Answer::Yes, Answer::No),
            ((Less, Equal), Answer::Perhaps, Answer::Perhaps),
            ((Less, Greater), Answer::Perhaps, Answer::Perhaps),
            ((Equal, Equal), Answer::No, Answer::Yes),
            ((Equal, Greater), Answer::No, Answer::Perhaps),
            ((Greater, Greater), Answer::No, Answer::No),
        ] {
            assert_eq!(compared(interval, Ordering::is_lt), below, "{interval:?}");
            assert_eq!(compared(interval, Ordering::is_eq), equal, "{interval:?}");
        }
    }
}
