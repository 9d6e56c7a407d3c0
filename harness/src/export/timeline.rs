//! The timeline as comma-separated values, for spreadsheets and scripts: one line per event, in order.
//!
//! `ns` is the firmware's virtual time for the instructions since the window opened, 2^shift each. `context` is what
//! executed as it happened.

use std::io::Write;

use anyhow::{Result, bail};

use super::settings::Settings;
use crate::analysis::trace::{Cursor, NOT_RECORDED, Recorded, Words, of_heap, recorded};
use crate::profile::Profile;
use crate::profile::zone::Context;
use crate::text::csv::cell;
use wire::timeline::What;

/// Writes the events below a line of column names.
///
/// # Errors
/// What `out` reports, and that there is no timeline.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    let Some(recorded) = recorded(profile) else { bail!(NOT_RECORDED) };
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(["insns", "ns", "cpu", "context", "event", "name", "value", "why"])?;
    let mut words = Words::new(profile);
    let mut cursor = Cursor::default();
    for recorded in recorded {
        let (vcpu, at_insns) = recorded.at();
        let context = cursor.context(vcpu);
        let mut row = Row::default();
        match &recorded {
            Recorded::Heap { event, .. } => {
                let (word, bytes) = of_heap(&event.what);
                row.event = word;
                row.value = bytes.map(|bytes| bytes.to_string());
            }
            Recorded::Event(event) => {
                words.learn(event);
                row.read(profile, &words, &event.what, context);
                cursor.pass(event);
            }
        }
        if row.event.is_empty() {
            continue;
        }
        let ns = settings.ns(profile, at_insns);
        csv.write_record([
            &at_insns.to_string(),
            &ns.to_string(),
            &vcpu.to_string(),
            &*cell(&words.context(context)),
            row.event,
            &*cell(&row.name),
            row.value.as_deref().unwrap_or_default(),
            &*cell(&row.why),
        ])?;
    }
    csv.flush()?;
    Ok(())
}

/// What is said of one event.
#[derive(Default)]
struct Row {
    /// Empty: nothing happened, and something was named.
    event: &'static str,
    name: String,
    value: Option<String>,
    why: String,
}

impl Row {
    fn read(&mut self, profile: &Profile, words: &Words<'_>, what: &What, context: Context) {
        let zone = |name: u32| profile.zones.name(name).to_owned();
        let (event, name) = match *what {
            What::Switched { task, why } => {
                self.why = words.why(why);
                ("switched", words.task(task))
            }
            What::Entered { number } => ("entered", words.context(Context::Exception(number))),
            What::Left => ("left", words.context(context)),
            What::Begun { name } => ("zone begins", zone(name)),
            What::Ended { name } => ("zone ends", zone(name)),
            What::Abandoned { name } => ("zone was left", zone(name)),
            What::Phase { name } => ("phase", zone(name)),
            What::Mark { name, value } => {
                self.value = Some(value.to_string());
                ("mark", zone(name))
            }
            What::Called { function } => ("called", words.function(function)),
            What::Returned { function } => ("returned", words.function(function)),
            What::Unwound { function } => ("call was left", words.function(function)),
            What::Printed { bytes } => {
                self.value = Some(bytes.to_string());
                ("printed", String::new())
            }
            What::Semihosting { operation } => ("semihosting", Words::operation(operation)),
            What::Waits => ("waits", String::new()),
            What::Masked => ("masked", String::new()),
            What::Unmasked => ("unmasked", String::new()),
            What::Object { .. } | What::Heap | What::Stopped => return,
        };
        (self.event, self.name) = (event, name);
    }
}
