//! The progress bar: instructions done, millions per second, samples. Silent when stderr is not a
//! terminal.

use std::time::Duration;

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressStyle};

use crate::run::records::Progress;

/// A bar for each of several runs, and one for all.
#[derive(Debug)]
pub struct Bars {
    all: MultiProgress,
    total: ProgressBar,
}

impl Bars {
    /// For so many runs.
    pub fn new(runs: usize) -> Bars {
        let all = MultiProgress::new();
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} images  {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let total = all.add(ProgressBar::new(runs as u64).with_style(style));
        Bars { all, total }
    }

    /// One more run.
    pub fn add(&self, name: &str, window_insns: u64) -> Bar {
        let Bar(bar) = Bar::new(name, window_insns);
        Bar(self.all.insert_before(&self.total, bar))
    }

    /// One run fewer to come.
    pub fn finished(&self) {
        self.total.inc(1);
    }

    /// Prints without disturbing the bars.
    pub fn above(&self, print: impl FnOnce()) {
        self.all.suspend(print);
    }

    /// Removes the bars.
    pub fn clear(&self) {
        self.total.finish_and_clear();
    }
}

/// A bar that follows one run.
#[derive(Debug)]
pub struct Bar(ProgressBar);

impl Bar {
    /// Shows a bar that is full at `window_insns`.
    pub fn new(image_name: &str, window_insns: u64) -> Bar {
        let bar = ProgressBar::new(window_insns);
        let style = ProgressStyle::with_template("{prefix} {bar:30} {msg}  {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_prefix(image_name.to_owned());
        Bar(bar)
    }

    /// Shows the progress.
    pub fn update(&self, progress: Progress) {
        let Bar(bar) = self;
        let insns = progress.insns;
        let mips = insns as f64 / 1e6 / bar.elapsed().max(Duration::from_millis(1)).as_secs_f64();
        if progress.window_open {
            bar.set_position(insns);
            let (done, samples) = (HumanCount(insns), HumanCount(progress.samples));
            bar.set_message(format!("{done} instructions, {mips:.0} MIPS, {samples} samples"));
        } else {
            bar.set_message(format!("{} instructions, waiting for the window to open", HumanCount(insns)));
        }
    }

    /// Prints without disturbing the bar.
    pub fn above(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.0.finish_and_clear();
    }
}
