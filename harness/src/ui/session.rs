// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view on the real terminal: raw mode and the alternate screen, and back again however it ends.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd as _;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use crate::error::InputError;
use crate::exit_code::ExitCode;
use crate::ui::App;

/// Longest wait for a key until the stop and the terminal's size are looked at again.
const LOOK_MILLIS: u8 = 100;

/// Time that a view has to end by itself where the terminal is gone.
const GRACE: Duration = Duration::from_secs(2);

/// Most bytes of a text to copy; terminals ignore longer ones.
const MOST_COPIED_BYTES: usize = 74_994;

/// Checks that there is a terminal to draw on and to read keys from.
///
/// # Errors
/// If there is none; the message names a command that needs none.
pub fn check(profile: &str) -> Result<(), InputError> {
    let missing = [("input", io::stdin().is_terminal()), ("output", io::stdout().is_terminal())];
    match missing.iter().find(|(_, is_terminal)| !is_terminal) {
        Some((what, _)) => Err(InputError::new(format!(
            "harness ui needs a terminal, and standard {what} is none; `harness top {profile}` prints the functions, \
             `harness report {profile}` makes a page"
        ))),
        None => Ok(()),
    }
}

/// Terminal that is as before once this is dropped. ratatui restores it in a panic, too, before the message is printed.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// State of the keyboard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyboard {
    /// Nothing was typed within [`LOOK_MILLIS`].
    Quiet,
    /// There is something to read.
    Typed,
    /// The terminal is gone.
    Gone,
}

/// Waits for a key. crossterm would read from a terminal that is gone for ever, so this looks first.
fn wait() -> Keyboard {
    let input = io::stdin();
    let mut fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    // A signal ends the wait early.
    let is_ready = poll(&mut fds, LOOK_MILLIS).is_ok_and(|ready| ready > 0);
    let state = fds[0].revents().unwrap_or(PollFlags::empty());
    match state {
        state if state.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) => Keyboard::Gone,
        _ if is_ready => Keyboard::Typed,
        _ => Keyboard::Quiet,
    }
}

/// Ends the process soon after the terminal is gone, unless the view has ended it. A terminal may go at the very moment at which
/// crossterm begins to read from it, after [`wait`] has looked.
fn end_without_a_terminal() {
    thread::spawn(|| {
        let input = io::stdin();
        // Without events to wait for, poll(2) tells of a terminal that is gone, and of nothing else.
        let mut fds = [PollFd::new(input.as_fd(), PollFlags::empty())];
        let gone = loop {
            match poll(&mut fds, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                seen => break seen,
            }
        };
        if gone.is_ok() {
            thread::sleep(GRACE);
            process::exit(ExitCode::Good.status().into());
        }
    });
}

/// Shows the view until the user quits, the terminal is gone, or `stop` is set.
///
/// # Errors
/// When the terminal cannot be drawn on or read.
pub fn run(app: &mut App<'_>, stop: &AtomicBool) -> Result<()> {
    let mut screen = Screen(ratatui::try_init()?);
    end_without_a_terminal();
    let mut is_new = true;
    while !app.is_over() && !stop.load(Ordering::Relaxed) {
        if std::mem::take(&mut is_new) {
            screen.0.draw(|frame| app.draw(frame))?;
        }
        if wait() == Keyboard::Gone {
            break;
        }
        // Keys that came meanwhile, as of a held arrow, are taken before the next frame. A new size comes without a key.
        while !app.is_over() && event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) => {
                    app.key(key);
                    is_new = true;
                }
                Event::Resize(..) => is_new = true,
                _ => {}
            }
        }
        if let Some(text) = app.take_copied() {
            copy(&text)?;
        }
    }
    Ok(())
}

/// Has the terminal copy a text: OSC 52 of xterm's control sequences, which works over ssh, too.
fn copy(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let bytes = &text.as_bytes()[..text.len().min(MOST_COPIED_BYTES)];
    write!(out, "\x1b]52;c;{}\x07", STANDARD.encode(bytes))?;
    out.flush()
}
