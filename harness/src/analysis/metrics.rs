//! A profile as numbers with names that stay: what baselines keep, thresholds judge and assertions ask for.
//!
//! Instructions belong to the function that wrote them in the source, wherever the compiler has inlined it,
//! so that a change of inlining moves no instruction from one function to another. Names lose what compilers
//! add to clones (`.constprop.0`, Rust's hashes), and namesakes in different files are told apart.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

use wire::definition::NodeKind;

use crate::analysis::column::Values;
use crate::analysis::place::Place;
use crate::analysis::{functions, heap, stacks, zone};
use crate::image::kernel::STACK_END_ADVICE;
use crate::profile::zone::ZoneCounts;
use crate::profile::{self, Profile};

/// The table of metrics: one entry here is all that baselines, comparison, thresholds and assertions know of it.
macro_rules! metrics {
    ($($(#[doc = $doc:literal])* $name:ident => $descriptor:expr;)*) => {
        /// A number of a run, of each function or of each task. Baselines' columns, judgements and messages are in
        /// this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $($(#[doc = $doc])* $name,)*
        }

        impl Metric {
            /// All of them.
            pub const ALL: &[Metric] = &[$(Metric::$name),*];

            /// What is known of it.
            pub const fn descriptor(self) -> Descriptor {
                match self {
                    $(Metric::$name => $descriptor,)*
                }
            }
        }
    };
}

metrics! {
    /// Instructions of the window.
    Total => Descriptor {
        word: "total",
        phrase: "total instructions",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| Some(profile.total_insns())),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions of a function's own source, not of what it calls.
    SelfInsns => Descriptor {
        word: "self",
        phrase: "own-line instructions of",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            profile.insns().into_iter().for_each(|(pc, insns)| add(Key::written_at(profile, pc).0, insns));
        }),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Those of them that run inlined into other functions.
    Inlined => Descriptor {
        word: "inlined",
        phrase: "inlined instructions of",
        role: Role::Kept,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            for (pc, insns) in profile.insns() {
                if let (key, true) = Key::written_at(profile, pc) {
                    add(key, insns);
                }
            }
        }),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Instructions of a function's code, with what is inlined into it. Unknown where it only exists inlined.
    Code => Descriptor {
        word: "code",
        phrase: "instructions of the code of",
        role: Role::Shown,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            called(profile).iter().for_each(|row| add(Key::new(&row.name, row.file.as_deref()), row.self_insns));
        }),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Instructions of a function from its entries to its returns, without interrupts.
    Inclusive => Descriptor {
        word: "inclusive",
        phrase: "inclusive instructions of",
        role: Role::Compared,
        needs_exact: true,
        read: Read::Functions(|profile, add| {
            let keys = keys(profile);
            for (key, insns) in inclusive(profile, |entry| keys.get(&entry)) {
                add(key.clone(), insns);
            }
        }),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// Entries of a function. Unknown where it only exists inlined.
    Calls => Descriptor {
        word: "calls",
        phrase: "calls of",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            called(profile).iter().for_each(|row| add(Key::new(&row.name, row.file.as_deref()), row.calls));
        }),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions while a task was the running one.
    TaskInsns => Descriptor {
        word: "task",
        phrase: "instructions of task",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Tasks(|task| Some(task.insns)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// How often a task was switched in.
    Switches => Descriptor {
        word: "switches",
        phrase: "switches to task",
        role: Role::Asserted,
        needs_exact: false,
        read: Read::Tasks(|task| Some(task.switches)),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Lines on the console in a window of a fixed length, where whoever measures it knows the console.
    Lines => Descriptor {
        word: "lines",
        phrase: "lines printed",
        role: Role::Kept,
        needs_exact: false,
        read: Read::Run(|_| None),
        where_uncounted: None,
        unknown: UNKNOWN,
        whole: None,
    };
    /// Most bytes of stack that a task used: exact with the exact tree, else at least that.
    Stack => Descriptor {
        word: "stack",
        phrase: "stack bytes of task",
        role: Role::Compared,
        needs_exact: true,
        read: Read::Tasks(|task| {
            task.stack_end.zip(task.deepest_sp).map(|(end, deepest)| end.saturating_sub(deepest))
        }),
        where_uncounted: None,
        unknown: STACK_END_ADVICE,
        whole: Some(|profile, _, name| {
            let task = profile.tasks.iter().zip(stacks::task_names(profile)).find(|(_, known)| known == name)?.0;
            task.stack_end?.checked_sub(task.stack_start?)
        }),
    };
    /// Instructions of a zone that the firmware names, those within it included.
    Zone => Descriptor {
        word: "zone",
        phrase: "instructions of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|zone| zone.total_insns),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: Some(of_total),
    };
    /// How often it was there from its beginning to its end.
    ZoneCalls => Descriptor {
        word: "zone_calls",
        phrase: "calls of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|zone| zone.calls),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Instructions of the shortest time.
    ZoneMin => Descriptor {
        word: "zone_min",
        phrase: "least instructions of zone",
        role: Role::Asserted,
        needs_exact: false,
        read: Read::Zones(|zone| zone.min_insns),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Of the mean.
    ZoneMean => Descriptor {
        word: "zone_mean",
        phrase: "mean instructions of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(ZoneCounts::mean_insns),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Of the longest.
    ZoneMax => Descriptor {
        word: "zone_max",
        phrase: "most instructions of zone",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Zones(|zone| zone.max_insns),
        where_uncounted: Some(0),
        unknown: UNKNOWN,
        whole: None,
    };
    /// Most bytes of heap that were held at once.
    HeapPeak => Descriptor {
        word: "heap_peak",
        phrase: "bytes of heap at the peak",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| heap::replay(profile).map(|found| found.peak.bytes)),
        where_uncounted: None,
        unknown: NO_HEAP,
        whole: None,
    };
    /// Bytes that were allocated in the window and are held at its end.
    HeapLeaked => Descriptor {
        word: "heap_leaked",
        phrase: "bytes of heap still held at the end",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Run(|profile| heap::replay(profile).map(|found| found.total.leaked.bytes)),
        where_uncounted: None,
        unknown: NO_HEAP,
        whole: None,
    };
    /// Allocations that a function asked for.
    HeapAllocs => Descriptor {
        word: "heap_allocs",
        phrase: "allocations by",
        role: Role::Compared,
        needs_exact: false,
        read: Read::Functions(|profile, add| {
            let Some(found) = heap::replay(profile) else { return };
            // Of a run that follows the heap, what asks for none is known.
            for pc in profile.insns().into_keys() {
                add(Key::of(Place::of(profile, pc)), 0);
            }
            for (number, site) in (1..).zip(&found.sites).filter(|(_, site)| site.allocated.blocks > 0) {
                if let Some(pc) = heap::asker(profile, number) {
                    add(Key::of(Place::of(profile, pc)), site.allocated.blocks);
                }
            }
        }),
        where_uncounted: None,
        unknown: NO_HEAP,
        whole: None,
    };
}

/// What is known of a metric.
#[derive(Clone, Copy)]
pub struct Descriptor {
    /// The word for it in suites, baselines and reports.
    pub word: &'static str,
    /// What it counts, as a sentence says it; a function's or task's name comes after it.
    pub phrase: &'static str,
    /// What it is used for.
    pub role: Role,
    /// Whether it is only known with the exact call tree.
    pub needs_exact: bool,
    /// How it is read from a profile, and with that what has such a number.
    pub read: Read,
    /// The number of a function or task that has others: 0 for what is counted, None for what may be unknown.
    pub where_uncounted: Option<u64>,
    /// Why a run or a task may have no such number, and what to do about it.
    pub unknown: &'static str,
    /// What it is a share of, by its subject's name; None: it is never written as a share.
    pub whole: Option<Whole>,
}

/// The same where nothing followed the heap.
const NO_HEAP: &str = "the run did not follow the heap: ask for it with --heap, or with heap = true in a suite";

/// What is said of a number that is not known, where nothing more can be said.
const UNKNOWN: &str = "it is not known of this run";

/// What a number is a share of: that of the run, or of the function or task of this name.
pub type Whole = fn(&Profile, &Metrics, &str) -> Option<u64>;

/// What a metric is used for; each use includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Two profiles that are compared show it.
    Shown,
    /// Baselines keep it.
    Kept,
    /// Assertions ask for it.
    Asserted,
    /// Two runs are compared by it: thresholds limit it, and reports show its change.
    Compared,
}

/// How a metric is read from a profile.
#[derive(Clone, Copy)]
pub enum Read {
    /// One number of the run.
    Run(fn(&Profile) -> Option<u64>),
    /// A number of each function: parts of it, added up.
    Functions(fn(&Profile, &mut dyn FnMut(Key, u64))),
    /// A number of each task.
    Tasks(fn(&profile::Task) -> Option<u64>),
    /// A number of each zone, over all tasks and interrupts.
    Zones(fn(&ZoneCounts) -> u64),
}

/// What has a number of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The run.
    Run,
    /// Each function.
    Function,
    /// Each task.
    Task,
    /// Each zone that the firmware names.
    Zone,
}

impl Subject {
    /// All of them.
    pub const ALL: [Subject; 4] = [Subject::Run, Subject::Function, Subject::Task, Subject::Zone];
}

impl Metric {
    /// The word for it in suites, baselines and reports.
    pub fn word(self) -> &'static str {
        self.descriptor().word
    }

    /// What has such a number.
    pub fn subject(self) -> Subject {
        match self.descriptor().read {
            Read::Run(_) => Subject::Run,
            Read::Functions(_) => Subject::Function,
            Read::Tasks(_) => Subject::Task,
            Read::Zones(_) => Subject::Zone,
        }
    }

    /// Those that a subject has.
    pub fn of(subject: Subject) -> impl Iterator<Item = Metric> {
        Metric::ALL.iter().copied().filter(move |metric| metric.subject() == subject)
    }

    /// Those of them that baselines keep.
    pub fn kept(subject: Subject) -> impl Iterator<Item = Metric> {
        Metric::of(subject).filter(|metric| metric.descriptor().role >= Role::Kept)
    }

    /// Those by which two runs' subjects are compared.
    pub fn compared(subject: Subject) -> impl Iterator<Item = Metric> {
        Metric::of(subject).filter(|metric| metric.descriptor().role >= Role::Compared)
    }
}

/// Something for each metric; what a subject does not have stays as it is by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByMetric<T>([T; Metric::ALL.len()]);

impl<T> Index<Metric> for ByMetric<T> {
    type Output = T;

    fn index(&self, metric: Metric) -> &T {
        &self.0[metric as usize]
    }
}

impl<T> IndexMut<Metric> for ByMetric<T> {
    fn index_mut(&mut self, metric: Metric) -> &mut T {
        &mut self.0[metric as usize]
    }
}

/// The numbers of a run, a function or a task; None where one is unknown.
pub type Numbers = ByMetric<Option<u64>>;

impl Numbers {
    /// Those of a subject of which nothing has been counted yet.
    pub fn uncounted(subject: Subject) -> Numbers {
        let mut numbers = Numbers::default();
        for metric in Metric::of(subject) {
            numbers[metric] = metric.descriptor().where_uncounted;
        }
        numbers
    }
}

/// The numbers of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Of the run as a whole.
    pub run: Numbers,
    /// By function.
    pub functions: BTreeMap<Key, Numbers>,
    /// By task, in the names that tell namesakes apart.
    pub tasks: BTreeMap<String, Numbers>,
    /// By zone.
    pub zones: BTreeMap<String, Numbers>,
}

/// A function, as it is known from run to run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its name without what compilers add.
    pub name: String,
    /// Last part of its file's path; empty when unknown.
    pub file: String,
}

/// A name without what compilers add to tell clones apart.
pub fn stable_name(name: &str) -> &str {
    const SUFFIXES: [&str; 8] =
        [".constprop", ".isra", ".part", ".cold", ".lto_priv", ".llvm", ".localalias", ".ltrans"];
    let mut name = name;
    while let Some((before, last)) = name.rsplit_once('.') {
        let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        let stem = if is_number { before } else { name };
        let Some(shorter) = SUFFIXES.iter().find_map(|suffix| stem.strip_suffix(suffix)) else { break };
        if shorter.is_empty() {
            break;
        }
        name = shorter;
    }
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

/// The name by which a function is known from run to run: [`stable_name`], without the numbers that Rust gives to
/// closures in the order of the source. What is then called alike is one, and its numbers are added up.
pub fn key_name(name: &str) -> String {
    let mut text = String::new();
    let mut rest = stable_name(name);
    while let Some((before, number)) = rest.split_once('#') {
        let digits = number.len() - number.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        // `{closure#0}`, `{shim:vtable#0}`; not C++'s `{lambda(int)#1}`, which baselines have always had.
        let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b':'));
        let is_number = digits > 0 && number[digits..].starts_with('}');
        text += before;
        if is_number && before.rsplit_once('{').is_some_and(|(_, word)| is_word(word)) {
            rest = &number[digits..];
        } else {
            text.push('#');
            rest = number;
        }
    }
    text + rest
}

/// The last part of a path, whichever way it is written.
pub fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

impl Metrics {
    /// Adds the numbers of a function of this key.
    pub fn add_function(&mut self, key: Key, numbers: &Numbers) {
        let sum = self.functions.entry(key).or_default();
        for metric in Metric::of(Subject::Function) {
            if let Some(number) = numbers[metric] {
                *sum[metric].get_or_insert(0) += number;
            }
        }
    }

    /// The numbers of a profile.
    pub fn of(profile: &Profile) -> Metrics {
        let mut metrics = Metrics::default();
        for name in stacks::task_names(profile) {
            metrics.tasks.insert(name, Numbers::uncounted(Subject::Task));
        }
        let zones = zone::table(profile);
        for &metric in Metric::ALL {
            match metric.descriptor().read {
                Read::Run(read) => metrics.run[metric] = read(profile),
                Read::Functions(read) => read(profile, &mut |key, number| {
                    let new = || Numbers::uncounted(Subject::Function);
                    *metrics.functions.entry(key).or_insert_with(new)[metric].get_or_insert(0) += number;
                }),
                Read::Tasks(read) => {
                    for (task, name) in profile.tasks.iter().zip(stacks::task_names(profile)) {
                        metrics.tasks.entry(name).or_default()[metric] = read(task);
                    }
                }
                Read::Zones(read) => {
                    for zone::Row { name, all, .. } in &zones {
                        metrics.zones.entry(name.clone()).or_default()[metric] = Some(read(all));
                    }
                }
            }
        }
        metrics
    }

    /// Instructions of the window.
    pub fn total_insns(&self) -> u64 {
        self.run[Metric::Total].unwrap_or(0)
    }

    /// The numbers of the functions of these names, of all files.
    pub fn named<'a>(&'a self, names: &'a BTreeSet<String>) -> impl Iterator<Item = &'a Numbers> {
        self.functions.iter().filter(|(key, _)| names.contains(&key.name)).map(|(_, numbers)| numbers)
    }
}

/// All instructions of the run, as what others are a share of.
fn of_total(_: &Profile, metrics: &Metrics, _: &str) -> Option<u64> {
    Some(metrics.total_insns())
}

/// Instructions of functions' own lines, wherever they are inlined, by the functions that the compiler has made code
/// of, each by its first address: what comparisons hold against each other.
pub fn own_lines(profile: &Profile) -> Values {
    let mut own: BTreeMap<Key, u64> = BTreeMap::new();
    for (pc, insns) in profile.insns() {
        *own.entry(Key::written_at(profile, pc).0).or_default() += insns;
    }
    let rows = called(profile).into_iter();
    let of_row = |row: functions::Row| {
        let own = own.get(&Key::new(&row.name, row.file.as_deref())).copied();
        (row.start, own.unwrap_or(0))
    };
    rows.map(of_row).collect()
}

/// The functions that the compiler has made code of.
fn called(profile: &Profile) -> Vec<functions::Row> {
    let rows = functions::table(profile).rows.into_iter();
    rows.filter(|row| row.kind == functions::RowKind::Function).collect()
}

impl Key {
    fn new(name: &str, file: Option<&str>) -> Key {
        let file = file.map_or("", file_name);
        Key { name: key_name(name), file: file.to_owned() }
    }

    /// The function whose source an instruction was made from, and whether it was inlined into another one.
    fn written_at(profile: &Profile, pc: u64) -> (Key, bool) {
        let names = &profile.names;
        let text = |index: u32| names.strings.get(index as usize).map_or("?", String::as_str);
        match names.frames_at(pc).last().filter(|frame| frame.inlined) {
            Some(frame) => (Key::new(text(frame.function), frame.file.map(text)), true),
            None => (Key::of(Place::of(profile, pc)), false),
        }
    }

    fn of(place: Place<'_>) -> Key {
        match place {
            Place::Function(function) => Key::new(&function.name, function.file.as_deref()),
            // Where code without a name lies changes with every build.
            Place::Range { .. } => Key { name: "[unnamed]".to_owned(), file: String::new() },
            Place::BootRom => Key { name: place.to_string(), file: String::new() },
        }
    }
}

/// The keys of those functions, by first address.
fn keys(profile: &Profile) -> BTreeMap<u64, Key> {
    // Instructions from entry to return are only known by the tree.
    let rows = if profile.tree.is_empty() { Vec::new() } else { called(profile) };
    rows.iter().filter_map(|row| Some((row.start?, Key::new(&row.name, row.file.as_deref())))).collect()
}

/// Instructions from entry to return of all functions of these names together: what one of them calls of the others is
/// counted once. None: there is no exact tree, or none of them in it.
pub fn inclusive_together(profile: &Profile, names: &BTreeSet<String>) -> Option<u64> {
    let keys = keys(profile);
    let is_one = |entry: u64| keys.get(&entry).is_some_and(|key| names.contains(&key.name));
    inclusive(profile, |entry| is_one(entry).then_some(())).remove(&())
}

/// Instructions from entry to return by what a function that starts there is counted as, recursion counted once,
/// interrupts not at all.
fn inclusive<P: Ord + Copy>(profile: &Profile, party: impl Fn(u64) -> Option<P>) -> BTreeMap<P, u64> {
    let parties = profile.tree.iter().map(|node| match node.kind {
        NodeKind::Function { entry } => party(entry),
        _ => None,
    });
    let parties: Vec<Option<P>> = parties.collect();
    // A node's number is higher than its parent's.
    let mut subtotals: Vec<u64> = profile.tree.iter().map(|node| node.insns).collect();
    for (index, node) in profile.tree.iter().enumerate().rev() {
        // A polled task is called by what polls it.
        if let (Some(parent), NodeKind::Function { .. } | NodeKind::Root { .. }) =
            (node.parent.checked_sub(1), node.kind)
        {
            subtotals[parent as usize] += subtotals[index];
        }
    }
    let mut inclusive = BTreeMap::new();
    for ((node, &own), &subtotal) in profile.tree.iter().zip(&parties).zip(&subtotals) {
        let Some(own) = own else { continue };
        let mut outer = node.parent;
        let mut is_recursive = false;
        while let Some(index) = outer.checked_sub(1).filter(|_| !is_recursive) {
            let parent = &profile.tree[index as usize];
            // What it interrupted is no caller.
            if matches!(parent.kind, NodeKind::Exception { .. }) {
                break;
            }
            is_recursive = parties[index as usize] == Some(own);
            outer = parent.parent;
        }
        if !is_recursive {
            *inclusive.entry(own).or_default() += subtotal;
        }
    }
    inclusive
}

/// Names of which there is one in several files.
pub fn ambiguous<'a>(keys: impl Iterator<Item = &'a Key>) -> BTreeSet<&'a str> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for key in keys {
        files.entry(&key.name).or_default().insert(&key.file);
    }
    files.into_iter().filter(|(_, files)| files.len() > 1).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Node;
    use crate::profile::testing::empty;
    use crate::profile::zone::{Context, Zone};

    #[test]
    fn what_compilers_add_to_a_name_is_no_part_of_it() {
        for (name, stable) in [
            ("crc32", "crc32"),
            ("crc32.constprop.0", "crc32"),
            ("crc32.isra.0.part.12", "crc32"),
            ("vTaskSwitchContext.part.0", "vTaskSwitchContext"),
            ("init.cold", "init"),
            ("f.lto_priv.3.constprop.1", "f"),
            ("app::run::h0123456789abcdef", "app::run"),
            ("app::hash", "app::hash"),
            // Hexadecimal and too short or too long; of the right length and no number.
            ("app::h0123456789abcde", "app::h0123456789abcde"),
            ("app::h0123456789abcdef0", "app::h0123456789abcdef0"),
            ("app::handle_interrupts", "app::handle_interrupts"),
            ("v1.2", "v1.2"),
            (".part.0", ".part.0"),
        ] {
            assert_eq!(stable_name(name), stable);
        }
    }

    #[test]
    fn a_zone_is_measured_over_all_tasks_and_interrupts() {
        let mut profile = empty();
        profile.zones.names = vec!["decode".to_owned(), "never".to_owned()];
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
        let metrics = Metrics::of(&profile);
        let of = |metric: Metric| metrics.zones["decode"][metric].unwrap();
        assert_eq!(Metric::of(Subject::Zone).map(of).collect::<Vec<_>>(), [35, 3, 5, 12, 20]);
        assert_eq!(metrics.zones.len(), 1);
    }

    #[test]
    fn numbers_of_closures_are_no_part_of_a_name_and_those_of_lambdas_are() {
        for (name, key) in [
            ("app::sorts::{closure#12}", "app::sorts::{closure}"),
            (
                "app::sort::<u8, app::sorts::{closure#0}>::{closure#1}",
                "app::sort::<u8, app::sorts::{closure}>::{closure}",
            ),
            (
                "<F as core::ops::FnOnce<()>>::call_once::{shim:vtable#0}",
                "<F as core::ops::FnOnce<()>>::call_once::{shim:vtable}",
            ),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()(int) const"),
            ("a#b {c#} {#1} #", "a#b {c#} {} #"),
        ] {
            assert_eq!(key_name(name), key);
        }
    }

    #[test]
    fn inclusive_counts_recursion_once_and_interrupts_not() {
        let mut profile = empty().function("f", 0x40, 4).function("g", 0x80, 4).insn(0x40, 10).insn(0x80, 5);
        let node = |parent, kind, insns| Node { parent, kind, via: None, insns, calls: 1 };
        let function = |entry| NodeKind::Function { entry };
        profile.tree = vec![
            node(0, NodeKind::Root { task: 0 }, 0),
            node(1, function(0x40), 6),
            node(2, function(0x80), 2),
            node(3, function(0x40), 4),
            node(4, NodeKind::Exception { number: 15 }, 0),
            node(5, function(0x80), 3),
        ];
        assert_eq!(inclusive(&profile, Some), BTreeMap::from([(0x40, 12), (0x80, 9)]));
        // A polled task that begins between two of them changes nothing.
        profile.tree.insert(2, node(2, NodeKind::Root { task: 1 }, 0));
        for (index, parent) in [(3, 3), (4, 4), (5, 5), (6, 6)] {
            profile.tree[index].parent = parent;
        }
        assert_eq!(inclusive(&profile, Some), BTreeMap::from([(0x40, 12), (0x80, 9)]));
    }

    #[test]
    fn what_is_called_alike_or_asked_for_together_counts_once_where_one_calls_the_other() {
        let mut profile = empty()
            .function("f::{closure#0}", 0x40, 4)
            .function("f::{closure#1}", 0x50, 4)
            .function("sort::<u8>", 0x60, 4)
            .function("sort::<u16>", 0x70, 4);
        let node =
            |parent, entry| Node { parent, kind: NodeKind::Function { entry }, via: None, insns: 10, calls: 1 };
        profile.tree = vec![node(0, 0x40), node(1, 0x50), node(2, 0x60), node(3, 0x70), node(4, 0x60)];
        profile = [0x40, 0x50, 0x60, 0x70].into_iter().fold(profile, |profile, pc| profile.insn(pc, 10));
        let metrics = Metrics::of(&profile);
        let of = |name: &str| {
            let names = BTreeSet::from([name.to_owned()]);
            metrics.named(&names).map(|numbers| numbers[Metric::Inclusive]).collect::<Vec<_>>()
        };
        assert_eq!([of("f::{closure}"), of("sort::<u8>"), of("sort::<u16>")], [[Some(50)], [Some(30)], [Some(20)]]);
        let together =
            |names: &[&str]| inclusive_together(&profile, &names.iter().map(|&name| name.into()).collect());
        assert_eq!(together(&["sort::<u8>", "sort::<u16>"]), Some(30));
        assert_eq!(together(&["sort::<u32>"]), None);
    }
}
