// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress bar: share of the window, speed, and remaining time. It appears only on a terminal, is never wider
//! than the terminal, and is never part of an output.

use std::cell::Cell;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::run::records::read::Progress;
use crate::text::columns::{columns, shorten};
use crate::text::number::{group, percent};
use crate::text::printable::printable;

/// Width of a line if the terminal's is unknown.
const DEFAULT_COLUMNS: usize = 80;

/// Least and most columns of the bar itself.
const BAR_COLUMNS: (usize, usize) = (6, 30);

/// Time before a slow operation is announced, and interval of further messages.
const PATIENCE: Duration = Duration::from_secs(1);
const REDRAWN_EVERY: Duration = Duration::from_millis(200);

/// A line that names an operation which may take long. It is shown after [`PATIENCE`] until it is dropped.
#[derive(Debug)]
pub struct Busy {
    /// Sender whose drop ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    /// Announces an operation, such as `writing report.html`.
    pub fn new(what: &str) -> Busy {
        if !Term::stderr().is_term() {
            return Busy { stop: None, thread: None };
        }
        let what = printable(what).into_owned();
        let (stop, stopped) = mpsc::channel();
        let goes_on = move |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let since = Instant::now();
        let thread = thread::spawn(move || {
            if !goes_on(PATIENCE) {
                return;
            }
            let bar = Bar::new("", 0).bar;
            loop {
                let width = width_columns();
                bar.set_message(shorten(&format!("{what}: {} s", since.elapsed().as_secs()), width).into_owned());
                bar.tick();
                if !goes_on(REDRAWN_EVERY) {
                    break;
                }
            }
            bar.finish_and_clear();
        });
        Busy { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The thread's result does not matter.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Columns of the terminal except the last one, since text in the last column may start a new line.
fn width_columns() -> usize {
    let width = Term::stderr().size_checked().map_or(DEFAULT_COLUMNS, |(_, columns)| usize::from(columns));
    width.saturating_sub(1)
}

/// A bar for each of several runs, and one for all.
#[derive(Debug)]
pub struct Bars {
    all: MultiProgress,
    total: ProgressBar,
}

impl Bars {
    /// Bars for `runs` runs; hidden unless `is_shown`.
    pub fn new(runs: usize, is_shown: bool) -> Bars {
        let all = MultiProgress::new();
        if !is_shown {
            all.set_draw_target(ProgressDrawTarget::hidden());
        }
        let style = ProgressStyle::with_template("{pos} of {len} images {wide_bar} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let total = all.add(ProgressBar::new(runs as u64));
        total.set_style(style);
        Bars { all, total }
    }

    /// Adds a bar for a run.
    pub fn add(&self, name: &str, window_insns: u64) -> Bar {
        // The bar is inserted before it is first drawn, since a bar drawn at another place would stay on the screen.
        Bar::on(self.all.insert_before(&self.total, ProgressBar::no_length()), name, window_insns)
    }

    /// Counts a finished run.
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
pub struct Bar {
    bar: ProgressBar,
    name: String,
    window_insns: u64,
    /// Time at which the window was first seen open.
    opened: Cell<Option<Instant>>,
}

impl Bar {
    /// Shows a bar that is full at `window_insns`; 0: the run has no known length.
    pub fn new(image_name: &str, window_insns: u64) -> Bar {
        Bar::on(ProgressBar::no_length(), image_name, window_insns)
    }

    /// A bar that shows nothing.
    pub fn hidden() -> Bar {
        Bar::on(ProgressBar::hidden(), "", 0)
    }

    fn on(bar: ProgressBar, image_name: &str, window_insns: u64) -> Bar {
        let style = ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        let bar = Bar { bar, name: printable(image_name).into_owned(), window_insns, opened: Cell::default() };
        bar.bar.set_message(bar.name.clone());
        bar
    }

    /// Shows the progress.
    pub fn update(&self, progress: Progress) {
        if self.bar.is_hidden() {
            return;
        }
        if progress.window_open && self.opened.get().is_none() {
            self.opened.set(Some(Instant::now()));
        }
        let elapsed = self.opened.get().map_or_else(|| self.bar.elapsed(), |opened| opened.elapsed());
        self.bar.set_message(line(&self.name, self.window_insns, progress, elapsed, width_columns()));
    }

    /// Prints without disturbing the bar.
    pub fn above(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

/// Text for a run, in at most `width_columns`; less important parts are left out first.
fn line(name: &str, window_insns: u64, progress: Progress, elapsed: Duration, width_columns: usize) -> String {
    let Progress { insns, samples, window_open, .. } = progress;
    let is_measured = window_open && window_insns > 0;
    let part = if is_measured { insns.min(window_insns) as f64 / window_insns as f64 } else { 0.0 };
    let seconds = elapsed.as_secs_f64().max(0.001);
    let time = match part {
        0.0 => time(elapsed),
        part => format!("{} left", time(Duration::from_secs_f64((seconds / part - seconds).clamp(0.0, 1e9)))),
    };
    let name = shorten(name, (width_columns / 3).max(8)).into_owned();
    // Parts with their position in the line, the most important first.
    let mut pieces = vec![
        (4, time),
        (2, format!("{:.0} MIPS", insns as f64 / 1e6 / seconds)),
        (1, format!("{} instructions", group(insns))),
        (3, format!("{} samples", group(samples))),
    ];
    if is_measured {
        pieces.insert(0, (0, format!("{:>3.0}%", percent(insns.min(window_insns), window_insns).floor())));
    } else if !window_open {
        pieces.truncate(3);
        pieces.insert(0, (0, "waiting for the window to open".to_owned()));
    }
    let bar = if is_measured { BAR_COLUMNS.0 + 1 } else { 0 };
    let mut room = width_columns.saturating_sub(columns(&name) + bar);
    pieces.retain(|(_, piece)| {
        let needed = columns(piece) + 2;
        let fits = needed <= room;
        room -= if fits { needed } else { 0 };
        fits
    });
    pieces.sort();
    let text: Vec<String> = pieces.into_iter().map(|(_, piece)| piece).collect();
    let (least, most) = BAR_COLUMNS;
    let drawn = if is_measured { format!(" {}", drawn(part, (least + room).min(most))) } else { String::new() };
    let line = format!("{name}{drawn} {}", text.join(", "));
    shorten(line.trim_end(), width_columns).into_owned()
}

/// A bar of `width_columns` columns.
fn drawn(part: f64, width_columns: usize) -> String {
    let full = ((part * width_columns as f64) as usize).min(width_columns);
    "\u{2588}".repeat(full) + &"\u{2591}".repeat(width_columns - full)
}

/// A remaining time, in a unit that suits its length.
fn time(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6000 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(insns: u64, window_insns: u64, window_open: bool, width_columns: usize) -> String {
        let progress = Progress { insns, samples: insns / 10_007, window_open };
        line("cortex-m3-freertos", window_insns, progress, Duration::from_secs(10), width_columns)
    }

    #[test]
    fn a_line_says_how_much_is_done_and_what_is_left_as_far_as_there_is_room() {
        let half = |width_columns| shown(1_000_000_000, 2_000_000_000, true, width_columns);
        assert_eq!(
            half(120),
            "cortex-m3-freertos ███████████████░░░░░░░░░░░░░░░  50%, 1,000,000,000 instructions, 100 MIPS, 99,930 samples, \
             10 s left"
        );
        assert_eq!(half(79), "cortex-m3-freertos ████████░░░░░░░░░  50%, 100 MIPS, 99,930 samples, 10 s left");
        assert_eq!(half(39), "cort…freertos ████░░░░  50%, 10 s left");
        assert_eq!(
            shown(1_000_000_000, 0, true, 79),
            "cortex-m3-freertos 1,000,000,000 instructions, 100 MIPS, 99,930 samples, 10 s"
        );
        assert_eq!(
            shown(1_000_000_000, 5, false, 79),
            "cortex-m3-freertos waiting for the window to open, 100 MIPS, 10 s"
        );
        assert!(shown(1_999_999_999, 2_000_000_000, true, 79).contains(" 99%"), "not done");
        assert!(shown(2_000_000_064, 2_000_000_000, true, 79).contains("100%, "), "no more than all");
    }

    #[test]
    fn no_line_is_wider_than_its_terminal() {
        for width in 0..200 {
            for insns in [0, 1, 999_999_999, 281_474_976_710_655] {
                for (window, is_open) in [(0, true), (2_000_000_000, true), (2_000_000_000, false)] {
                    let line = shown(insns, window, is_open, width);
                    assert!(columns(&line) <= width.max(1), "{width}: {line}");
                }
            }
        }
    }
}
