// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folded stacks: one line per call path, `outermost;…;innermost N`, for inferno, flamegraph.pl and speedscope. N is
//! instructions, or cycles; frames have the same names as in the flamegraph.

use std::io::{self, Write};

use anyhow::Result;

use crate::analysis::calltree::CallTree;
use crate::analysis::cycles;
use crate::analysis::metrics::NO_CYCLES;
use crate::analysis::part::{by_phase, phase_frame};
use crate::error::InputError;
use crate::export::labels;
use crate::export::settings::Settings;
use crate::profile::Profile;

/// Writes the lines in the order of their frames: each path right before the paths that continue it. A path without
/// instructions of its own has no line. All numbers add up to the profile's instructions, or cycles.
///
/// # Errors
/// Errors of `out`; also when cycles are asked for and not known.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    if settings.in_cycles && !cycles::are_known(profile) {
        return Err(InputError::new(cycles::sentence(profile).unwrap_or_else(|| NO_CYCLES.to_owned())).into());
    }
    if settings.by_phase {
        for (name, part) in by_phase(profile).map_err(InputError::new)? {
            lines(&part, settings, Some(&labels::clean(&phase_frame(&name))), out)?;
        }
        return Ok(());
    }
    lines(profile, settings, None, out)
}

/// Writes the lines; all of them begin with `root`.
fn lines(profile: &Profile, settings: &Settings, root: Option<&str>, out: &mut dyn Write) -> Result<()> {
    let tree = CallTree::new(profile, settings.view);
    let tree = if settings.in_cycles { tree.in_cycles() } else { tree };
    labels::each(&tree, |frames, count| {
        for (depth, &frame) in root.iter().chain(frames).enumerate() {
            if depth > 0 {
                out.write_all(b";")?;
            }
            out.write_all(frame.as_bytes())?;
        }
        writeln!(out, " {count}")?;
        Ok::<(), io::Error>(())
    })?;
    Ok(())
}
