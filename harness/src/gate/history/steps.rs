// SPDX-License-Identifier: MIT OR Apache-2.0
//! Steps of a number: places where it differs from the commit before. The numbers are exact, so each difference is one.

use crate::gate::history::{Point, Step};

/// Adds points of zero where a number is missing in runs that have numbers of its kind, as that of a function that did not
/// run: at the first and the last commit of each gap. `measured` are the commits with such runs, in order.
pub(super) fn filled(points: Vec<Point>, measured: &[usize]) -> Vec<Point> {
    let mut filled = Vec::new();
    // Place of the next commit of `measured` that has no point yet.
    let mut next = 0;
    let gap = |filled: &mut Vec<Point>, from: usize, to: usize| {
        let commits = measured.get(from..to).and_then(|gap| Some([*gap.first()?, *gap.last()?]));
        let [first, last] = commits.unwrap_or_default();
        let zero = |commit| Point { commit, value: 0, bound: None, ended_well: true };
        filled.extend((to > from).then(|| zero(first)));
        filled.extend((to > from + 1).then(|| zero(last)));
    };
    for point in points {
        if point.ended_well {
            let place = measured.partition_point(|&commit| commit < point.commit);
            gap(&mut filled, next, place);
            next = place + 1;
        }
        filled.push(point);
    }
    gap(&mut filled, next, measured.len());
    // A run that did not end as expected may lie within a gap.
    filled.sort_by_key(|point| point.commit);
    filled
}

/// Steps of a number, the oldest first.
pub(super) fn of(points: &[Point]) -> Vec<Step> {
    let good: Vec<&Point> = points.iter().filter(|point| point.ended_well).collect();
    let pairs = good.windows(2).filter(|pair| pair[0].value != pair[1].value);
    let step = |pair: &[&Point]| Step {
        commit: pair[1].commit,
        since: pair[0].commit,
        before: pair[0].value,
        after: pair[1].value,
        causes: Vec::new(),
    };
    pairs.map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of `(commit, value)`; 99 is the number of a run that ended badly.
    fn points(values: &[(usize, u64)]) -> Vec<Point> {
        let point = |&(commit, value)| Point { commit, value, bound: None, ended_well: value != 99 };
        values.iter().map(point).collect()
    }

    /// Steps as `(commit, since, before, after)`.
    fn steps(points: &[Point]) -> Vec<(usize, usize, u64, u64)> {
        of(points).into_iter().map(|step| (step.commit, step.since, step.before, step.after)).collect()
    }

    #[test]
    fn any_difference_is_a_step_at_its_commit() {
        let found = steps(&points(&[(0, 5), (1, 5), (2, 6), (3, 6), (4, 5)]));
        assert_eq!(found, [(2, 1, 5, 6), (4, 3, 6, 5)]);
        // A run that ended badly, and one that is missing, are skipped: the step is somewhere between.
        assert_eq!(steps(&points(&[(0, 5), (1, 99), (3, 7)])), [(3, 0, 5, 7)]);
        assert_eq!(steps(&points(&[(0, 5), (2, 5)])), []);
        assert_eq!(steps(&[]), []);
    }

    #[test]
    fn a_function_that_does_not_run_has_zero_instructions() {
        let all = [0, 2, 3, 5, 6, 7, 9];
        let values = |values: &[(usize, u64)]| -> Vec<(usize, u64)> {
            filled(points(values), &all).into_iter().map(|point| (point.commit, point.value)).collect()
        };
        // New at 3, away from 5 to 7, back at 9.
        assert_eq!(values(&[(3, 4), (9, 4)]), [(0, 0), (2, 0), (3, 4), (5, 0), (7, 0), (9, 4)]);
        let found = steps(&filled(points(&[(3, 4), (9, 4)]), &all));
        assert_eq!(found, [(3, 2, 0, 4), (5, 3, 4, 0), (9, 7, 0, 4)]);
        assert_eq!(values(&[(0, 4), (2, 4), (3, 4), (4, 99), (5, 4), (6, 4)]).last(), Some(&(9, 0)));
        assert_eq!(values(&[(4, 99)]), [(0, 0), (4, 99), (9, 0)]);
        assert_eq!(filled(points(&[(1, 3)]), &[1]), points(&[(1, 3)]));
        assert_eq!(filled(Vec::new(), &[]), []);
    }
}
