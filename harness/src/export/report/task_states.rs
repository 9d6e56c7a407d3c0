// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of the tasks' states on the page, below the table of tasks: the terminal's.

use serde::Serialize;

use crate::analysis::task_state_cells::{self, Cells, SEVERAL_CPUS};
use crate::analysis::task_states;
use crate::profile::Profile;

/// Most rows of a table on the page.
const MAX_ROWS: usize = 200;

/// Tables of the states, and sentences about them.
#[derive(Debug, Serialize)]
pub(super) struct StateTables {
    tables: Vec<StateTable>,
    sentences: Vec<String>,
}

#[derive(Debug, Serialize)]
struct StateTable {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl StateTables {
    /// Tables of a profile. None: it has no timeline, or no tasks.
    pub(super) fn of(profile: &Profile) -> Option<StateTables> {
        profile.timeline.as_ref().filter(|_| !profile.tasks.is_empty())?;
        let mut of = StateTables { tables: Vec::new(), sentences: Vec::new() };
        let Some(report) = task_states::report(profile) else {
            of.sentences.push(SEVERAL_CPUS.to_owned());
            return Some(of);
        };
        of.sentences.extend(task_state_cells::sentence(&report));
        for (Cells { heads, mut rows }, noun) in
            [(task_state_cells::states(&report), "tasks"), (task_state_cells::waits(&report), "waits")]
        {
            let all = rows.len();
            rows.truncate(MAX_ROWS);
            if rows.len() < all {
                of.sentences.push(format!("{} more {noun} are in harness export PROFILE -f json", all - rows.len()));
            }
            if !rows.is_empty() {
                of.tables.push(StateTable { heads, rows });
            }
        }
        Some(of)
    }
}
