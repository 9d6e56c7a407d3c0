// SPDX-License-Identifier: MIT OR Apache-2.0
//! Budgets: ceilings on all that firmware may not outgrow, in one table with value, margin and trend. `[budget]` of a
//! suite, or of a file of its own for `harness budget`.
//!
//! A budget's numbers are [`Metric`]s. The static bounds of stacks are not in a profile: [`Bounds`] adds them.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Spanned, Value};

use crate::analysis::metrics::{Metric, Metrics, Numbers, Role, Subject};
use crate::analysis::stack_bound::{self, Certainty, Program, Rules};
use crate::analysis::stack_proof;
use crate::error::InputError;
use crate::export::json::{VERSION, document};
use crate::gate::expect::{Finding, FindingKind};
use crate::gate::threshold::{ALL, Pattern};
use crate::gate::undecided;
use crate::image::{Image, LoadOptions};
use crate::profile::Profile;
use crate::show::names;
use crate::text::near::nearest;
use crate::text::number::{group, group_known, parse_millionths, parse_number, signed};
use crate::text::table::write_table;

/// Table of a budget as typed: a ceiling for each metric, or ceilings by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct Table(BTreeMap<String, Spanned<Value>>);

/// A file with a budget. Its other keys are those of a suite.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct File {
    /// The budget.
    pub budget: Table,
    /// Statements about stacks.
    pub stack: Rules,
}

/// Ceilings, with the statements about stacks by which bounds are computed.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    ceilings: Vec<Ceiling>,
    /// Statements about stacks.
    pub rules: Rules,
}

/// Ceiling on one metric of the subjects that match.
#[derive(Clone, Debug)]
struct Ceiling {
    metric: Metric,
    pattern: Pattern,
    limit: Limit,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Number(u64),
    Millionths(u64),
}

/// Row of a judged budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetRow {
    /// Limited number: `flash`, `stack_bound("net")`.
    pub what: String,
    /// Measured value; None: unknown.
    pub value: Option<u64>,
    /// Kind of the value: "exact", "at least", "bounded", "estimated" or "unknown".
    pub certainty: String,
    /// Limit; None: a share of something unknown.
    pub limit: Option<u64>,
    /// Limit as it is written.
    pub written: String,
    /// Value of the baseline; None: there is none.
    pub before: Option<u64>,
    /// Whether the value is known and not above the limit.
    pub holds: bool,
    /// Reason why the value is unknown.
    pub why: Option<String>,
}

/// Static bounds of stacks, by task; the main stack's has no name.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    rows: BTreeMap<Option<String>, (Option<u64>, Certainty, Vec<String>)>,
    /// Errors of harness: bounds that the runs exceeded, a sentence each.
    pub errors: Vec<String>,
}

impl Budget {
    /// Reads a budget.
    ///
    /// # Errors
    /// The place in the text, and what is wrong there.
    pub fn new(tables: &[&Table], rules: &Rules) -> Result<Budget, (Range<usize>, String)> {
        rules.check().map_err(|why| (0..0, format!("[stack] {why}")))?;
        let mut ceilings: Vec<Ceiling> = Vec::new();
        // A later table's ceiling replaces that of an earlier one.
        for (word, value) in tables.iter().flat_map(|table| &table.0) {
            let error = |what: String| (value.span(), format!("budget: {what}"));
            let asserted = Metric::ALL.iter().filter(|metric| metric.descriptor().role >= Role::Asserted);
            let Some(&metric) = asserted.clone().find(|metric| metric.word() == word) else {
                let near = nearest(word, asserted.map(|metric| metric.word()));
                let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
                return Err(error(format!("{word:?} is not a measure{near}")));
            };
            let mut add = |name: &str, value: &Value| {
                let text = match value {
                    Value::Integer(number) => number.to_string(),
                    Value::String(text) => text.clone(),
                    _ => return Err(format!("{word}: write a number such as \"256k\", or a share such as \"95%\"")),
                };
                let limit = match text.strip_suffix('%') {
                    Some(share) if metric.descriptor().whole.is_some() => {
                        parse_millionths(share.trim()).map(Limit::Millionths)
                    }
                    Some(_) => return Err(format!("{word} is a number and no share: write it without %")),
                    None => parse_number("", &text).ok().map(Limit::Number),
                };
                let limit = limit.ok_or_else(|| format!("{word}: {text:?} is neither a number nor a share"))?;
                let pattern = Pattern::new(name).map_err(|error| error.to_string())?;
                ceilings.retain(|known| known.metric != metric || known.pattern.text != pattern.text);
                ceilings.push(Ceiling { metric, pattern, limit, text });
                Ok(())
            };
            match value.get_ref() {
                Value::Table(named) if metric.subject() != Subject::Run => {
                    named.iter().try_for_each(|(name, value)| add(name, value)).map_err(error)?;
                }
                Value::Table(_) => return Err(error(format!("{word} takes no names"))),
                value => add(ALL, value).map_err(error)?,
            }
        }
        ceilings.sort_by(|one, other| (one.metric, &one.pattern.text).cmp(&(other.metric, &other.pattern.text)));
        Ok(Budget { ceilings, rules: rules.clone() })
    }

    /// Whether there is nothing to hold.
    pub fn is_empty(&self) -> bool {
        self.ceilings.is_empty()
    }

    /// Whether bounds of stacks are needed.
    pub fn needs_bounds(&self) -> bool {
        self.ceilings.iter().any(|ceiling| is_bound(ceiling.metric))
    }

    /// Whether a number needs the exact call tree.
    pub fn needs_exact(&self) -> bool {
        self.ceilings.iter().any(|ceiling| ceiling.metric.descriptor().needs_exact)
    }

    /// Judges a run, in the order of the metrics.
    pub fn judge(
        &self,
        profile: &Profile,
        now: &Metrics,
        before: Option<&Metrics>,
        bounds: Option<&Bounds>,
    ) -> Vec<BudgetRow> {
        let mut rows = Vec::new();
        for ceiling in &self.ceilings {
            let all = subjects_of(ceiling.metric, now);
            let own = all.iter().filter(|(name, _)| {
                let has_own = |other: &Ceiling| {
                    other.metric == ceiling.metric && !other.pattern.is_all() && other.pattern.matches(name)
                };
                if ceiling.pattern.is_all() {
                    !self.ceilings.iter().any(has_own)
                } else {
                    ceiling.pattern.matches(name)
                }
            });
            let own: Vec<_> = own.collect();
            if own.is_empty() {
                let name = &ceiling.pattern.text;
                rows.push(ceiling.row(profile, now, name, None, None, bounds));
            }
            let old: BTreeMap<String, Option<u64>> =
                before.into_iter().flat_map(|before| subjects_of(ceiling.metric, before)).collect();
            for (name, value) in own {
                rows.push(ceiling.row(profile, now, name, *value, old.get(name).copied().flatten(), bounds));
            }
        }
        rows
    }
}

/// Whether a metric is a static bound.
pub(super) fn is_bound(metric: Metric) -> bool {
    matches!(metric, Metric::StackBound | Metric::MainStack)
}

/// Subjects of a metric with their values; the run's has the empty name.
fn subjects_of(metric: Metric, metrics: &Metrics) -> Vec<(String, Option<u64>)> {
    let of = |(name, numbers): (&String, &Numbers)| (name.clone(), numbers[metric]);
    match metric.subject() {
        Subject::Run => vec![(String::new(), metrics.run[metric])],
        Subject::Function => {
            let mut sums: BTreeMap<String, Option<u64>> = BTreeMap::new();
            for (key, numbers) in &metrics.functions {
                if let Some(number) = numbers[metric] {
                    let sum = sums.entry(key.name.clone()).or_default();
                    *sum = Some(sum.unwrap_or(0).saturating_add(number));
                }
            }
            sums.into_iter().collect()
        }
        Subject::Task => metrics.tasks.iter().map(of).collect(),
        Subject::Zone => metrics.zones.iter().map(of).collect(),
    }
}

impl Ceiling {
    fn row(
        &self,
        profile: &Profile,
        now: &Metrics,
        name: &str,
        value: Option<u64>,
        before: Option<u64>,
        bounds: Option<&Bounds>,
    ) -> BudgetRow {
        let descriptor = self.metric.descriptor();
        let is_of_run = self.metric.subject() == Subject::Run;
        let word = descriptor.word;
        let what = if is_of_run { word.to_owned() } else { format!("{word}({name:?})") };
        let limit = match self.limit {
            Limit::Number(limit) => Some(limit),
            Limit::Millionths(millionths) => {
                descriptor.whole.and_then(|whole| whole(profile, now, name)).map(|whole| {
                    let limit = u128::from(whole) * u128::from(millionths) / 1_000_000;
                    u64::try_from(limit).unwrap_or(u64::MAX)
                })
            }
        };
        let bound = bounds.and_then(|bounds| bounds.rows.get(&(!is_of_run).then(|| name.to_owned())));
        let interval = value.and_then(|value| undecided::interval(profile, now, self.metric, (name, value)));
        let certainty = match (value, is_bound(self.metric)) {
            (None, _) => "unknown",
            _ if interval.zip(limit).is_some_and(|((least, most), limit)| (least..most).contains(&limit)) => {
                "undecided"
            }
            _ if interval.is_some() => "about",
            (_, true) => bound.map_or("unknown", |(_, certainty, _)| certainty.word()),
            (_, false) if self.metric == Metric::Stack && !stack_proof::has_exact_tree(profile) => "at least",
            _ => "exact",
        };
        let why = match (value, bound) {
            (Some(_), _) if limit.is_none() => Some(format!("nothing is known of which it is {}", self.text)),
            (Some(_), _) => None,
            (None, Some((_, _, reasons))) if is_bound(self.metric) && !reasons.is_empty() => Some(reasons.join("; ")),
            (None, _) if !is_of_run && subjects_of(self.metric, now).iter().all(|(known, _)| known != name) => {
                Some(format!("the run has no {name:?}"))
            }
            (None, _) => Some(descriptor.unknown.to_owned()),
        };
        let least = interval.map(|(least, _)| least).or(value);
        let holds = least.zip(limit).is_some_and(|(least, limit)| least <= limit);
        BudgetRow {
            what,
            value,
            certainty: certainty.to_owned(),
            limit,
            written: self.text.clone(),
            before,
            holds,
            why,
        }
    }
}

impl File {
    /// Reads the budget of a file, which may be a suite.
    ///
    /// # Errors
    /// When it is not TOML, or has no budget that can be read.
    pub fn parse(path: &Path, text: &str) -> Result<Budget, InputError> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        let error = |at: usize, what: &str| InputError::new(format!("{}:{}: {what}", path.display(), line(at)));
        let file: File = toml::from_str(text)
            .map_err(|wrong| error(wrong.span().map_or(0, |span| span.start), wrong.message().trim()))?;
        let budget = Budget::new(&[&file.budget], &file.stack).map_err(|(span, what)| error(span.start, &what))?;
        if budget.is_empty() {
            let why = "has no [budget]; write one, such as: [budget] and flash = \"256k\" below it";
            return Err(InputError::about(path, why));
        }
        Ok(budget)
    }
}

/// A judged budget as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Budget")]
struct Document<'a> {
    /// Always "harness-budget".
    format: &'static str,
    /// Version of the format. Profiles as JSON have the same version.
    version: u32,
    /// File name of the image.
    image: &'a str,
    /// SHA-256 of the image.
    image_sha256: &'a str,
    /// Rows, in the order of the measures.
    rows: &'a [BudgetRow],
}

/// Writes a judged budget as JSON.
///
/// # Errors
/// Errors of `out`.
pub fn write_json(profile: &Profile, rows: &[BudgetRow], out: &mut dyn Write) -> anyhow::Result<()> {
    let document = Document {
        format: "harness-budget",
        version: VERSION,
        image: &profile.facts.image_name,
        image_sha256: &profile.facts.image_sha256,
        rows,
    };
    document::write_line(&document, out)
}

/// JSON Schema of [`write_json`]'s output.
///
/// # Errors
/// No known errors.
pub fn schema() -> anyhow::Result<String> {
    document::schema::<Document<'_>>()
}

/// Writes a judged budget as a table for the terminal, and the reasons for unknown numbers. Names are shortened to a width
/// (None: whole).
///
/// # Errors
/// Errors of `out`.
pub fn write(rows: &[BudgetRow], width_columns: Option<usize>, out: &mut impl Write) -> std::io::Result<()> {
    let heads = ["Budget", "Value", "Number is", "Limit", "Margin", "Trend", "Holds"];
    let mut lines = vec![heads.map(str::to_owned)];
    for row in rows {
        let [what, value, certainty, limit, margin, trend] = row.cells();
        lines.push([what, value, certainty, limit, margin, trend, if row.holds { "yes" } else { "NO" }.to_owned()]);
    }
    names::fit(&mut lines, 0, width_columns);
    write_table(&lines, out)?;
    for row in rows.iter().filter(|row| !row.holds) {
        writeln!(out, "FAIL {}", row.finding().message)?;
    }
    Ok(())
}

impl BudgetRow {
    /// Bytes or instructions that are left; negative if the limit is crossed.
    pub fn margin(&self) -> Option<i128> {
        Some(i128::from(self.limit?) - i128::from(self.value?))
    }

    /// Change from the baseline.
    pub fn trend(&self) -> Option<i128> {
        Some(i128::from(self.value?) - i128::from(self.before?))
    }

    /// Cells of a table: number, value, kind of the value, limit, margin, trend.
    pub fn cells(&self) -> [String; 6] {
        let limit = self.limit.map_or_else(|| self.written.clone(), group);
        let limit = if self.written.ends_with('%') { format!("{limit} ({})", self.written) } else { limit };
        let margin = self.margin().map_or_else(
            || "-".to_owned(),
            |margin| {
                if margin < 0 { signed(margin) } else { group(u64::try_from(margin).unwrap_or(u64::MAX)) }
            },
        );
        let trend = self.trend().map_or_else(|| "-".to_owned(), signed);
        [self.what.clone(), group_known(self.value), self.certainty.clone(), limit, margin, trend]
    }

    /// The row as an expectation.
    pub fn finding(&self) -> Finding {
        let expected = format!("budget: {} at most {}", self.what, self.written);
        let actual = self.value.map_or_else(|| "unknown".to_owned(), group);
        if self.holds {
            return Finding {
                passed: true,
                ..Finding::failed(FindingKind::Threshold, expected, &actual, String::new())
            };
        }
        let message = match (&self.why, self.limit) {
            (None, Some(limit)) => format!("budget: {} is {actual}, at most {} are allowed", self.what, group(limit)),
            (why, _) => {
                format!(
                    "budget: {} is not known to be at most {}: {}",
                    self.what,
                    self.written,
                    why.as_deref().unwrap_or("-")
                )
            }
        };
        Finding::failed(FindingKind::Threshold, expected, &actual, message)
    }
}

impl Bounds {
    /// Computes the bounds of an image's stacks; `bytes` is its ELF file.
    ///
    /// # Errors
    /// When the image cannot be read.
    pub fn find(path: &Path, bytes: &[u8], profiles: &[Profile], rules: &Rules) -> Result<Bounds, InputError> {
        let image = Image::from_bytes(path, bytes, &LoadOptions::default(), None)?;
        let Some(program) = Program::read(bytes, &image, profiles, rules) else { return Ok(Bounds::default()) };
        let mut bounds = Bounds::default();
        for row in stack_bound::rows(&program, &image, profiles, rules) {
            let error = row.contradiction(rules);
            let bound = row.bound;
            let is_bound = bound.certainty != Certainty::Unbounded && error.is_none();
            let reasons = error.clone().map_or(bound.reasons, |error| vec![error]);
            let bytes = is_bound.then_some(bound.bytes);
            bounds.rows.insert(row.is_task.then_some(row.name), (bytes, bound.certainty, reasons));
            bounds.errors.extend(error);
        }
        Ok(bounds)
    }

    /// Findings on bounds that the run exceeded: each is a failure, whatever the limits are.
    pub fn findings(&self) -> impl Iterator<Item = Finding> {
        self.errors.iter().map(|error| {
            let expected = "no run needs more stack than its bound";
            Finding::failed(FindingKind::CrossCheck, expected, error, error.clone())
        })
    }

    /// Adds the bounds to the numbers of a run.
    pub fn add_to(&self, metrics: &mut Metrics) {
        for (name, (bytes, _, _)) in &self.rows {
            match name {
                None => metrics.run[Metric::MainStack] = *bytes,
                Some(name) => {
                    if let Some(numbers) = metrics.tasks.get_mut(name) {
                        numbers[Metric::StackBound] = *bytes;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Sizes;
    use crate::profile::testing::empty;

    fn budget(text: &str) -> Result<Budget, String> {
        let file: File = toml::from_str(text).unwrap();
        Budget::new(&[&file.budget], &file.stack).map_err(|(_, what)| what)
    }

    #[test]
    fn a_row_has_limit_value_margin_and_trend_and_the_unknown_does_not_hold() {
        let mut profile = empty().function("main", 0x40, 4).insn(0x40, 1000);
        profile.facts.sizes =
            Some(Sizes { flash_bytes: 900, ram_bytes: 400, flash_room_bytes: Some(1000), ram_room_bytes: None });
        let now = Metrics::of(&profile);
        let mut before = now.clone();
        before.run[Metric::Flash] = Some(850);
        let text =
            "[budget]\nflash = \"95%\"\nram = \"50%\"\ntotal = 999\nheap_peak = \"1k\"\nself = { main = \"2k\" }";
        let rows = budget(text).unwrap().judge(&profile, &now, Some(&before), None);
        let row = |what: &str| rows.iter().find(|row| row.what == what).unwrap();
        let flash = row("flash");
        assert_eq!((flash.value, flash.limit, flash.holds), (Some(900), Some(950), true));
        assert_eq!((flash.margin(), flash.trend(), &*flash.certainty), (Some(50), Some(50), "exact"));
        assert!(!row("ram").holds && row("ram").why.as_ref().unwrap().contains("50%"));
        assert!(!row("total").holds && row("total").margin() == Some(-1));
        assert!(!row("heap_peak").holds && row("heap_peak").why.as_ref().unwrap().contains("--heap"));
        assert!(row("self(\"main\")").holds, "{rows:?}");
        assert!(row("total").finding().message.contains("total is 1,000, at most 999 are allowed"));
    }

    #[test]
    fn what_is_wrong_in_a_budget_is_named() {
        for (text, why) in [
            ("flsh = 1", "did you mean flash?"),
            ("flash = { a = 1 }", "flash takes no names"),
            ("flash = \"a lot\"", "neither a number nor a share"),
            ("switches = \"5%\"", "without %"),
            ("flash = [1]", "write a number"),
        ] {
            let error = budget(&format!("[budget]\n{text}\n")).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
