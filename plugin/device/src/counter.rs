// SPDX-License-Identifier: MIT OR Apache-2.0
//! A counter. Its value is computed from the time since it was last set, so a counter that is rarely read loses no
//! tick.

use crate::NS_PER_S;

/// Speed and range of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Frequency of the counter's clock in Hz; 0 for a stopped clock.
    pub(crate) hz: u64,
    /// Divisor of that frequency, at least 1.
    pub(crate) divisor: u64,
    /// Number of values, at least 1: after the last one the counter wraps to 0.
    pub(crate) values: u128,
    /// Whether the counter runs.
    pub(crate) is_running: bool,
}

impl Pace {
    fn ticks(&self, ns: u64) -> u128 {
        if !self.is_running || self.hz == 0 {
            return 0;
        }
        u128::from(ns) * u128::from(self.hz) / (NS_PER_S * u128::from(self.divisor))
    }

    /// Nanoseconds until `ticks` ticks have passed.
    fn ns(&self, ticks: u128) -> u64 {
        let ns = (ticks * NS_PER_S * u128::from(self.divisor)).div_ceil(self.hz.into());
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// A counter's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counting {
    pace: Pace,
    /// Time in ns when the counter was last set.
    begin_ns: u64,
    /// Value at that time.
    begin: u128,
    /// Ticks since that time whose crossings are reported already.
    told: u128,
}

impl Counting {
    pub(crate) fn new(pace: Pace) -> Counting {
        Counting { pace, begin_ns: 0, begin: 0, told: 0 }
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    /// Value at a time.
    pub(crate) fn value(&self, now_ns: u64) -> u128 {
        (self.begin + self.pace.ticks(now_ns.saturating_sub(self.begin_ns))) % self.pace.values
    }

    /// Changes the pace; the value stays.
    pub(crate) fn change(&mut self, pace: Pace, now_ns: u64) {
        let value = self.value(now_ns) % pace.values;
        self.pace = pace;
        self.set(value, now_ns);
    }

    /// Changes the value; the pace stays.
    pub(crate) fn set(&mut self, value: u128, now_ns: u64) {
        (self.begin, self.begin_ns, self.told) = (value % self.pace.values, now_ns, 0);
    }

    /// Whether the counter has reached a value between the last [`Counting::tell`] and `until` ticks
    /// ([`Counting::ticks`]).
    pub(crate) fn has_passed(&self, value: u128, until: u128) -> bool {
        let Pace { values, .. } = self.pace;
        if value >= values {
            return false;
        }
        // Rounds completed past the value. One round is added, so that the difference is not negative.
        let rounds = |ticks: u128| (self.begin + ticks + values - value) / values;
        rounds(until) > rounds(self.told)
    }

    /// Ticks since the counter was last set.
    pub(crate) fn ticks(&self, now_ns: u64) -> u128 {
        self.pace.ticks(now_ns.saturating_sub(self.begin_ns))
    }

    /// Marks all crossings up to `ticks` as reported.
    pub(crate) fn tell(&mut self, ticks: u128) {
        // A read from outside of the processor may carry an earlier time than the last read from inside.
        self.told = self.told.max(ticks);
    }

    /// Time in ns when the counter next reaches a value, after the last reported tick; None: never.
    pub(crate) fn next(&self, value: u128) -> Option<u64> {
        let Pace { values, is_running, hz, .. } = self.pace;
        if !is_running || hz == 0 || value >= values {
            return None;
        }
        let at = (self.begin + self.told) % values;
        let distance = (value + values - at) % values;
        let distance = if distance == 0 { values } else { distance };
        Some(self.begin_ns.saturating_add(self.pace.ns(self.told + distance)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Comparison with a counter that takes every tick.
        #[test]
        fn a_counter_is_as_one_that_takes_every_tick(
            hz in 1u64..2_000_000_000, divisor in 1u64..70_000, values in 1u128..40, begin in 0u128..40,
            looks in prop::collection::vec(0u64..3_000_000, 1..12), value in 0u128..40,
        ) {
            let pace = Pace { hz, divisor, values, is_running: true };
            let mut counting = Counting::new(pace);
            counting.set(begin, 1000);
            let mut now = 1000;
            let (mut count, mut ticks) = (begin % values, 0u128);
            for step in looks {
                now += step;
                let until = u128::from(now - 1000) * u128::from(hz) / (NS_PER_S * u128::from(divisor));
                let mut passed = false;
                // Every value is crossed within one round, so two rounds are enough.
                let many = until - ticks;
                for _ in 0..many.min(2 * values) {
                    count = (count + 1) % values;
                    passed |= count == value;
                }
                count = (begin % values + until) % values;
                ticks = until;
                prop_assert_eq!(counting.value(now), count);
                prop_assert_eq!(counting.has_passed(value, counting.ticks(now)), passed);
                counting.tell(counting.ticks(now));
                if let Some(next) = counting.next(value) {
                    prop_assert!(next > now);
                    prop_assert_eq!(counting.value(next), value);
                    prop_assert!(!counting.has_passed(value, counting.ticks(next - 1)));
                    prop_assert!(counting.has_passed(value, counting.ticks(next)));
                } else {
                    prop_assert!(value >= values);
                }
            }
        }
    }

    #[test]
    fn a_counter_that_is_changed_goes_on_from_where_it_is() {
        let pace = Pace { hz: 1_000_000, divisor: 1, values: 0x10000, is_running: true };
        let mut counting = Counting::new(pace);
        assert_eq!(counting.value(5_000), 5);
        counting.change(Pace { divisor: 10, ..pace }, 5_000);
        assert_eq!(counting.value(14_999), 5);
        assert_eq!(counting.value(25_000), 7);
        counting.change(Pace { is_running: false, ..pace }, 25_000);
        assert_eq!(counting.value(u64::MAX), 7);
        assert_eq!(counting.next(9), None);
    }
}
