// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a first suite from the firmware files found. Each image is run once to find its end. Then the suite's text is
//! run as `harness test` will run it, so that the suite passes. The gate's own reader, session and baselines do the
//! runs; `draft` makes the text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::Result;

use crate::analysis::describe;
use crate::exit_code::ExitCode;
use crate::gate::cache::{Cache, Wanted};
use crate::gate::crew;
use crate::gate::draft::{BASELINE, Draft, Fate, Image, LastLine};
use crate::gate::expect::Ending;
use crate::gate::rerun_command::Command;
use crate::gate::result::CaseResult;
use crate::gate::session::{Settings, Shown, baseline_file, file_stem};
use crate::gate::suite::{self, Case, Suite};
use crate::image;
use crate::profile::files::CONSOLE;
use crate::profile::{End, Profile};
use crate::run::request::options::Sandbox;
use crate::run::watch::interrupt::INTERRUPTED;

/// Ratio of the suite's timeout to the timeout of these runs, since the next machine may be slower.
const SLOWER_MACHINES: f64 = 5.0;

/// Settings for running the images.
#[derive(Debug)]
pub struct Wish {
    /// Window of images that have not ended by then, in the form in which the user typed it.
    pub window: String,
    /// Time limit of a run, in seconds of the host.
    pub timeout_seconds: f64,
    /// Number of images that run at the same time.
    pub jobs: usize,
    /// Use of the kernel's sandbox around QEMU.
    pub sandbox: Sandbox,
    /// Whether progress is shown.
    pub has_progress: bool,
}

/// The first suite with its results.
#[derive(Debug)]
pub struct First {
    /// The suite.
    pub draft: Draft,
    /// Exit code of each image's run, in the order of the suite.
    pub codes: Vec<ExitCode>,
    /// Names and contents of the baseline's files.
    pub baseline: Vec<(String, Vec<u8>)>,
}

impl First {
    /// Runs these images, whose paths are relative to the current directory; `scratch` is an empty directory. None: the
    /// user interrupted the runs.
    ///
    /// # Errors
    /// When a path cannot be written in a suite, or the written text cannot be read back, which is a defect.
    pub fn make(images: &[PathBuf], wish: &Wish, scratch: &Path) -> Result<Option<First>> {
        let names = names(images);
        let image = |(path, name): (&PathBuf, Option<String>)| Image {
            elf: path.display().to_string(),
            name,
            fate: Fate::Window(wish.window.clone()),
            remarks: Vec::new(),
            last_line: None,
            sizes: None,
        };
        let images: Vec<Image> = images.iter().zip(names).map(image).collect();
        let count = images.len();
        let draft = Draft { images, timeout_seconds: wish.timeout_seconds, has_baseline: false };
        let mut first = First { draft, codes: vec![ExitCode::Good; count], baseline: Vec::new() };
        // A cache of its own: later rounds find the results of the first one.
        let cache = Cache::new(&Wanted { place: Some(&scratch.join("cache")), ..Wanted::default() })?;
        let mut rounds = Rounds { wish, scratch, cache };

        let (_, results) = rounds.run(&first.draft, None, None)?;
        for (index, result) in results.iter().enumerate() {
            first.see(index, result, wish, scratch);
        }
        first.draft.timeout_seconds = wish.timeout_seconds * SLOWER_MACHINES;
        first.draft.has_baseline = true;
        // The numbers are saved and then compared with themselves, so that images whose numbers a suite cannot judge
        // are found here.
        for (baseline, save_baseline) in [(None, Some(BASELINE)), (Some(BASELINE), None)] {
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if first.draft.runs() == 0 {
                return Ok(Some(first));
            }
            let (suite, results) = rounds.run(&first.draft, baseline, save_baseline)?;
            let run: Vec<usize> = (0..count).filter(|&index| first.is_run(index)).collect();
            for ((index, case), result) in run.into_iter().zip(&suite.cases).zip(&results) {
                if !result.passed() {
                    first.leave_out(index, result, None);
                } else if baseline.is_some() {
                    let file = baseline_file(&suite, BASELINE, case);
                    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    first.baseline.push((name, fs::read(&file)?));
                }
            }
        }
        Ok((!INTERRUPTED.load(Ordering::Relaxed)).then_some(first))
    }

    fn is_run(&self, index: usize) -> bool {
        !matches!(self.draft.images[index].fate, Fate::LeftOut { .. })
    }

    /// Notes the outcome of an image's run.
    fn see(&mut self, index: usize, result: &CaseResult, wish: &Wish, scratch: &Path) {
        self.codes[index] = result.code();
        let image = &mut self.draft.images[index];
        image.remarks = result.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
        let directory = result.profile.as_ref().map(|name| scratch.join(name));
        let profile = directory.as_ref().and_then(|directory| Profile::load(directory).ok());
        image.sizes = profile.as_ref().and_then(|profile| profile.facts.sizes);
        let console = directory.and_then(|directory| fs::read(directory.join(CONSOLE)).ok());
        image.last_line = console.and_then(|console| LastLine::of(&console));
        let end = profile.as_ref().map(|profile| &profile.facts.end);
        match (end, &profile) {
            _ if !result.passed() => {
                let ending = end.and_then(Ending::of);
                self.leave_out(index, result, ending);
            }
            (_, Some(profile)) if profile.notes.iter().any(|note| !note.denied) => {
                let why = describe::describe_notes(profile).join("\n");
                let why = format!("its numbers depend on the host, and no baseline holds for another one\n{why}");
                image.fate = Fate::LeftOut { why, ending: None };
            }
            (Some(End::Exit { .. }), Some(profile)) => image.fate = Fate::Ends { insns: profile.total_insns() },
            _ => image.fate = Fate::Window(wish.window.clone()),
        }
    }

    fn leave_out(&mut self, index: usize, result: &CaseResult, ending: Option<Ending>) {
        self.codes[index] = result.code();
        let why: Vec<&str> = result.failures().map(|finding| finding.message.as_str()).collect();
        self.draft.images[index].fate = Fate::LeftOut { why: why.join("\n"), ending };
    }
}

/// Data that all rounds of runs share.
struct Rounds<'a> {
    wish: &'a Wish,
    scratch: &'a Path,
    cache: Option<Cache>,
}

impl Rounds<'_> {
    /// Runs the suite's current text.
    fn run(
        &mut self,
        draft: &Draft,
        baseline: Option<&str>,
        save_baseline: Option<&str>,
    ) -> Result<(Suite, Vec<CaseResult>)> {
        let mut suite = Suite::parse(Path::new(suite::FILE_NAME), &draft.text())?;
        suite.baselines = self.scratch.join("baselines");
        let settings = Settings {
            directory: self.scratch.to_owned(),
            cache: self.cache.clone(),
            baseline: baseline.map(str::to_owned),
            save_baseline: save_baseline.map(str::to_owned),
            ratchet: false,
            has_progress: self.wish.has_progress,
            shown: Shown::Nothing,
            command: Command::default(),
            sandbox: self.wish.sandbox,
            jobs: self.wish.jobs,
        };
        let cases: Vec<&Case> = suite.cases.iter().collect();
        let results = crew::run(&suite, &cases, &settings);
        Ok((suite, results))
    }
}

/// Names for images whose stems, or baselines, would be equal: stems with as many parent directories as necessary.
fn names(images: &[PathBuf]) -> Vec<Option<String>> {
    let with = |path: &PathBuf, directories: usize| {
        let above = path.parent().into_iter().flat_map(Path::components);
        let above: Vec<String> = above
            .filter(|part| matches!(part, std::path::Component::Normal(_)))
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        let mut parts = above[above.len().saturating_sub(directories)..].to_vec();
        parts.push(image::stem(path));
        parts.join("-")
    };
    let most = images.iter().map(|path| path.components().count()).max().unwrap_or(0);
    let count_different = |names: &[String]| names.iter().map(|name| file_stem(name)).collect::<BTreeSet<_>>().len();
    let mut names: Vec<String> = images.iter().map(|path| with(path, 0)).collect();
    for directories in 1..=most {
        if count_different(&names) == names.len() {
            break;
        }
        let taken: Vec<String> = names.iter().map(|name| file_stem(name)).collect();
        for (index, path) in images.iter().enumerate() {
            if taken.iter().filter(|name| **name == taken[index]).count() > 1 {
                names[index] = with(path, directories);
            }
        }
    }
    // The remaining equal names differ only in characters that file names cannot have.
    for index in 0..names.len() {
        if names[..index].iter().any(|name| file_stem(name) == file_stem(&names[index])) {
            names[index] = format!("{}-{}", names[index], index + 1);
        }
    }
    images.iter().zip(names).map(|(path, name)| (name != image::stem(path)).then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_one_stem_are_called_by_what_they_are_in() {
        let named = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            names(&paths).into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>()
        };
        assert_eq!(named(&["build/a.elf", "build/b.elf"]), ["", ""]);
        assert_eq!(
            named(&["target/m3/debug/app", "target/m3/release/app", "x.elf"]),
            ["debug-app", "release-app", ""]
        );
        assert_eq!(named(&["m3/build/app", "m4/build/app"]), ["m3-build-app", "m4-build-app"]);
        // Their baselines would have the same name.
        assert_eq!(named(&["a b.elf", "a_b.elf"]), ["", "a_b-2"]);
        assert_eq!(named(&["app.elf", "app.axf", "a/app.elf"]).iter().collect::<BTreeSet<_>>().len(), 3);
    }
}
