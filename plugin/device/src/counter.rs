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
    /// Whether the counter counts down again from the last value, to 0.
    pub(crate) is_two_way: bool,
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

    /// Ticks of a round. In a round of two ways each value but the first and the last comes twice.
    fn round(&self) -> u128 {
        if self.is_two_way { (2 * (self.values - 1)).max(1) } else { self.values }
    }

    /// Value at a place of the round.
    fn at(&self, place: u128) -> u128 {
        if place < self.values { place } else { self.round() - place }
    }

    /// Places of the round that have a value: one, or the same twice, or two.
    fn places(&self, value: u128) -> [u128; 2] {
        let way_down = self.round() - value;
        [value, if self.is_two_way && value > 0 && way_down > value { way_down } else { value }]
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
    /// Place in the round at that time, see [`Pace::at`].
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
        self.pace.at(self.place(now_ns))
    }

    fn place(&self, now_ns: u64) -> u128 {
        (self.begin + self.pace.ticks(now_ns.saturating_sub(self.begin_ns))) % self.pace.round()
    }

    /// Changes the pace; the value stays, and so does the way that it takes where there are two.
    pub(crate) fn change(&mut self, pace: Pace, now_ns: u64) {
        let (place, value) = (self.place(now_ns), self.value(now_ns));
        let goes_down = place != value && pace.is_two_way && value < pace.values;
        self.pace = pace;
        self.set(value, now_ns);
        if goes_down {
            self.begin = pace.places(value)[1];
        }
    }

    /// Changes the value; the pace stays.
    pub(crate) fn set(&mut self, value: u128, now_ns: u64) {
        (self.begin, self.begin_ns, self.told) = (value % self.pace.values, now_ns, 0);
    }

    /// Whether the counter has reached a value between the last [`Counting::tell`] and `until` ticks
    /// ([`Counting::ticks`]), or has left it, so many ticks `late`: 0 or 1.
    pub(crate) fn has_passed(&self, value: u128, late: u128, until: u128) -> bool {
        if value >= self.pace.values {
            return false;
        }
        let round = self.pace.round();
        // Rounds completed past the place. Two rounds are added, so that the difference is not negative.
        let rounds = |place: u128, ticks: u128| (self.begin + ticks + 2 * round - place - late) / round;
        self.pace.places(value).into_iter().any(|place| rounds(place, until) > rounds(place, self.told))
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

    /// Time in ns when the counter next reaches a value, or leaves it ([`Counting::has_passed`]), after the last reported tick;
    /// None: never.
    pub(crate) fn next(&self, value: u128, late: u128) -> Option<u64> {
        let Pace { values, is_running, hz, .. } = self.pace;
        if !is_running || hz == 0 || value >= values {
            return None;
        }
        let round = self.pace.round();
        let at = (self.begin + self.told) % round;
        let distances = self.pace.places(value).map(|place| match (place + late + round - at) % round {
            0 => round,
            distance => distance,
        });
        let distance = distances[0].min(distances[1]);
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
            looks in prop::collection::vec(0u64..3_000_000, 1..12), value in 0u128..40, is_two_way in any::<bool>(), late in 0u128..2,
        ) {
            let pace = Pace { hz, divisor, values, is_two_way, is_running: true };
            let mut counting = Counting::new(pace);
            counting.set(begin, 1000);
            let mut now = 1000;
            let (mut count, mut ticks) = (begin % values, 0u128);
            let mut goes_down = false;
            for step in looks {
                now += step;
                let until = u128::from(now - 1000) * u128::from(hz) / (NS_PER_S * u128::from(divisor));
                let mut passed = false;
                // Every value is crossed within one round. All ticks but those of two rounds are left out, by whole rounds.
                let (many, round) = (until - ticks, if is_two_way { (2 * (values - 1)).max(1) } else { values });
                let many = if many > 2 * round { 2 * round + many % round } else { many };
                for _ in 0..many {
                    goes_down = is_two_way && (count + 1 == values || goes_down && count > 0);
                    let left = count;
                    count = if goes_down { count.saturating_sub(1) } else { (count + 1) % values };
                    passed |= value == if late == 1 { left } else { count };
                }
                ticks = until;
                prop_assert_eq!(counting.value(now), count);
                prop_assert_eq!(counting.has_passed(value, late, counting.ticks(now)), passed);
                counting.tell(counting.ticks(now));
                if let Some(next) = counting.next(value, late) {
                    prop_assert!(next > now);
                    prop_assert!(late == 1 || counting.value(next) == value);
                    prop_assert!(!counting.has_passed(value, late, counting.ticks(next - 1)));
                    prop_assert!(counting.has_passed(value, late, counting.ticks(next)));
                } else {
                    prop_assert!(value >= values);
                }
            }
        }
    }

    #[test]
    fn a_counter_that_is_changed_goes_on_from_where_it_is() {
        let pace = Pace { hz: 1_000_000, divisor: 1, values: 0x10000, is_two_way: false, is_running: true };
        let mut counting = Counting::new(pace);
        assert_eq!(counting.value(5_000), 5);
        counting.change(Pace { divisor: 10, ..pace }, 5_000);
        assert_eq!(counting.value(14_999), 5);
        assert_eq!(counting.value(25_000), 7);
        counting.change(Pace { is_running: false, ..pace }, 25_000);
        assert_eq!(counting.value(u64::MAX), 7);
        assert_eq!(counting.next(9, 0), None);
    }

    #[test]
    fn a_counter_of_two_ways_keeps_its_way_as_its_pace_changes() {
        let pace = Pace { hz: 1_000_000, divisor: 1, values: 11, is_two_way: true, is_running: true };
        let mut counting = Counting::new(pace);
        counting.set(0, 0);
        assert_eq!([0, 9_000, 10_000, 11_000, 19_000, 20_000].map(|ns| counting.value(ns)), [0, 9, 10, 9, 1, 0]);
        assert_eq!(counting.next(0, 0), Some(20_000), "it wraps at 0 alone");
        counting.change(Pace { values: 21, ..pace }, 13_000);
        assert_eq!([13_000, 14_000, 20_000, 21_000].map(|ns| counting.value(ns)), [7, 6, 0, 1], "on the way down");
        counting.change(Pace { values: 5, ..pace }, 27_000);
        assert_eq!(counting.value(27_000), 2, "7 is none of its values");
    }
}
