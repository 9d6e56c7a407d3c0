//! What assertions ask of zones: instructions, calls, and the shortest, mean and longest time of one.

use crate::analysis::zone::table;
use crate::gate::assertion::nearest;
use crate::profile::Profile;

/// A number of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Total,
    Calls,
    Min,
    Mean,
    Max,
}

/// That number, over all tasks and interrupts.
///
/// # Errors
/// When the firmware has no zone of that name, with the nearest.
pub(super) fn measure(profile: &Profile, name: &str, of: Of) -> Result<u64, String> {
    let rows = table(profile);
    let Some(row) = rows.iter().find(|row| row.name == name) else {
        // Of a zone that is there and never came all numbers are 0.
        if profile.zones.names.iter().any(|known| known == name) {
            return Ok(0);
        }
        let nearest = nearest(name, profile.zones.names.iter().map(String::as_str));
        let hint = nearest.map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
        return Err(format!("the firmware has no zone `{name}`{hint}"));
    };
    Ok(match of {
        Of::Total => row.all.total_insns,
        Of::Calls => row.all.calls,
        Of::Min => row.all.min_insns,
        Of::Mean => row.all.mean_insns(),
        Of::Max => row.all.max_insns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::testing::empty;
    use crate::profile::zone::{Context, Zone, ZoneCounts};

    #[test]
    fn a_zone_is_measured_over_all_contexts_and_another_one_is_named() {
        let mut profile = empty();
        profile.zones.names = vec!["decode".to_owned(), "idle".to_owned()];
        let counts = |calls, sum_insns, [min_insns, max_insns]: [u64; 2]| ZoneCounts {
            calls,
            sum_insns,
            total_insns: sum_insns,
            min_insns,
            max_insns,
            ..ZoneCounts::default()
        };
        profile.zones.zones = vec![
            Zone { name: 1, context: Context::Task(0), counts: counts(2, 30, [10, 20]) },
            Zone { name: 1, context: Context::Exception(15), counts: counts(1, 5, [5, 5]) },
        ];
        let of = |of| measure(&profile, "decode", of).unwrap();
        assert_eq!([of(Of::Total), of(Of::Calls), of(Of::Min), of(Of::Mean), of(Of::Max)], [35, 3, 5, 11, 20]);
        assert_eq!(measure(&profile, "idle", Of::Max), Ok(0));
        let error = measure(&profile, "decod", Of::Max).unwrap_err();
        assert_eq!(error, "the firmware has no zone `decod`; did you mean `decode`?");
    }
}
