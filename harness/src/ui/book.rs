// SPDX-License-Identifier: MIT OR Apache-2.0
//! Contents of the views: one run, or two to compare, with everything that is computed once.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::analysis::calltree::CallTree;
use crate::analysis::column::Values;
use crate::analysis::functions::{self, Table};
use crate::analysis::listing::{Lister, Listing};
use crate::analysis::metrics;
use crate::analysis::owner::{self, Owner};
use crate::analysis::scope::{Scope, Scopes, Sums};
use crate::analysis::source::Sources;
use crate::profile::Profile;
use crate::show::names;
use crate::text::symbol_name::{file_name, key_name};
use crate::ui::grid::Place;

/// A run and its tables.
pub(super) struct Run<'p> {
    pub(super) profile: &'p Profile,
    /// Name of the profile, as typed.
    pub(super) label: String,
    pub(super) table: Table,
    pub(super) own_lines: Values,
    pub(super) tree: CallTree,
    pub(super) scopes: Scopes,
    /// End of the run's time: the most instructions of a vCPU.
    pub(super) end_insns: u64,
    lister: Lister<'p>,
}

impl<'p> Run<'p> {
    fn new(profile: &'p Profile, label: &str) -> Result<Run<'p>> {
        let tree = CallTree::of_calls(profile);
        let samples = profile.samples.iter().map(|sample| sample.at_insns);
        let clocks = profile.vcpus.iter().map(|vcpu| vcpu.clock_insns);
        Ok(Run {
            profile,
            label: label.to_owned(),
            table: functions::table(profile),
            own_lines: metrics::own_lines(profile),
            scopes: Scopes::new(&tree),
            tree,
            end_insns: clocks.chain(samples).max().unwrap_or(0),
            lister: Lister::new(profile)?,
        })
    }

    /// Code at a function's first address; None: the boot ROM.
    pub(super) fn owner(&self, start: Option<u64>) -> Owner<'p> {
        Owner::of(self.profile, owner::address_of(self.profile, start))
    }

    /// Instructions and samples of a scope.
    pub(super) fn total(&self, scope: &Scope) -> Sums {
        match scope {
            Scope::Run => Sums { insns: self.table.total_insns, samples: self.table.total_samples },
            scope => self.scopes.total(&self.tree, scope),
        }
    }

    /// First addresses of functions by the name that comparisons know them by, and the last part of their file's path.
    pub(super) fn places(&self) -> BTreeMap<(String, String), u64> {
        let mut places = BTreeMap::new();
        for function in &self.profile.names.functions {
            let file = function.file.as_deref().map(file_name).unwrap_or_default();
            places.entry((key_name(&function.name), file.to_owned())).or_insert(function.start);
        }
        places
    }
}

/// Widest bins.
const MOST_BIN_BYTES: u64 = 1 << 32;

/// Most bins that are useful to look through.
const MOST_BINS: usize = 250;

/// Width of the bins: the profile's, doubled until there are few enough.
fn bin_bytes(profile: &Profile) -> u64 {
    let addresses: BTreeSet<u64> = profile.vcpus.iter().flat_map(|vcpu| &vcpu.insns).map(|insn| insn.pc).collect();
    let mut bytes = profile.facts.bin_bytes;
    let addresses: Vec<u64> = addresses.into_iter().collect();
    let count = |bytes: u64| addresses.chunk_by(|one, next| one / bytes == next / bytes).count();
    while count(bytes) > MOST_BINS && bytes < MOST_BIN_BYTES {
        bytes *= 2;
    }
    bytes
}

/// The runs that are shown.
pub struct Book<'p> {
    /// The run that is looked at; the later one of two.
    pub(super) run: Run<'p>,
    /// The run that it is compared with.
    pub(super) before: Option<Run<'p>>,
    sources: RefCell<Sources>,
    /// Width of the bins, once it is asked for.
    bin_bytes: OnceCell<u64>,
}

impl<'p> Book<'p> {
    /// Book of a profile with its name as typed, and of an earlier one to compare it with.
    ///
    /// # Errors
    /// When there is no disassembler.
    pub fn new(
        (profile, label): (&'p Profile, &str),
        before: Option<(&'p Profile, &str)>,
        sources: Sources,
    ) -> Result<Book<'p>> {
        let before = before.map(|(profile, label)| Run::new(profile, label)).transpose()?;
        Ok(Book {
            run: Run::new(profile, label)?,
            before,
            sources: RefCell::new(sources),
            bin_bytes: OnceCell::new(),
        })
    }

    /// Width of the bins.
    pub(super) fn bin_bytes(&self) -> u64 {
        *self.bin_bytes.get_or_init(|| bin_bytes(self.run.profile))
    }

    /// Run that a place belongs to.
    pub(super) fn run_of(&self, place: Place) -> &Run<'p> {
        self.before.as_ref().filter(|_| place.is_before).unwrap_or(&self.run)
    }

    /// Name of a function, as tables show it.
    pub(super) fn name(&self, place: Place) -> String {
        let run = self.run_of(place);
        names::async_bodies(&run.profile.names, &run.owner(place.start).to_string())
    }

    /// Code of a function.
    pub(super) fn listing(&self, place: Place) -> Listing {
        let run = self.run_of(place);
        run.lister.list(run.owner(place.start), &mut self.sources.borrow_mut())
    }

    /// All scopes of the runs.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        let mut scopes: Vec<Scope> = self.run.scopes.names().cloned().collect();
        scopes.extend(self.before.iter().flat_map(|run| run.scopes.names().cloned()));
        scopes.sort();
        scopes.dedup();
        scopes
    }
}
