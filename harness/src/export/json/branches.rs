// SPDX-License-Identifier: MIT OR Apache-2.0
//! Branches in the JSON document.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analysis::flow::{self, Count};
use crate::export::json::Address;
use crate::profile::Profile;

/// Executed instruction after which control may go more than one way.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Branch")]
pub(super) struct JsonBranch {
    /// Address of the instruction.
    address: Address,
    /// Kind: `conditional`, `conditional return`, or `table` (a `switch`).
    kind: &'static str,
    /// Executions of the instruction. Exact.
    executions: u64,
    /// Source file of the instruction.
    file: Option<String>,
    /// Line in it.
    line: Option<u32>,
    /// Ways that control may go: of a conditional branch the taken one, then the fall-through.
    ways: Vec<JsonWay>,
}

/// One way of a branch.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Way")]
struct JsonWay {
    /// Address that control goes to; null: it leaves the function.
    target: Option<Address>,
    /// Kind of the number: `exact`, `bounded` (between `least` and `most`) or `unknown`.
    kind: &'static str,
    /// Least number of times that control went this way.
    least: u64,
    /// Greatest number of times; null: unknown.
    most: Option<u64>,
}

impl JsonBranch {
    pub(super) fn new(profile: &Profile, branch: &flow::Branch) -> JsonBranch {
        let place = profile.names.line_at(branch.site);
        let way = |way: &flow::Way| {
            let count: Count = way.count;
            JsonWay { target: way.target.map(Address), kind: count.kind(), least: count.least(), most: count.most() }
        };
        JsonBranch {
            address: Address(branch.site),
            kind: branch.kind.name(),
            executions: branch.executions,
            file: place.map(|(file, _)| file.to_owned()),
            line: place.map(|(_, line)| line),
            ways: branch.ways.iter().map(way).collect(),
        }
    }
}
