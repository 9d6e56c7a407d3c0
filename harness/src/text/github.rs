//! Text for the log of a GitHub job, which reads commands out of it: `::error::…` where a line begins, `##[…]`
//! anywhere (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>). Names and consoles are
//! the firmware's and must command nothing.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;
use std::{env, thread};

use crate::text::terminal::printable;

/// Whether a GitHub job runs this.
pub fn is_job() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// A line that is no command: `: :error::…`, `# #[…]`.
pub fn line(line: &str) -> Cow<'_, str> {
    // The runner looks behind leading space.
    let text = line.trim_start();
    if !text.starts_with("::") && !line.contains("##[") {
        return Cow::Borrowed(line);
    }
    let (space, text) = line.split_at(line.len() - text.len());
    let text = text.strip_prefix("::").map_or_else(|| text.to_owned(), |rest| format!(": :{rest}"));
    Cow::Owned(format!("{space}{}", text.replace("##[", "# #[")))
}

/// The message of a command: one line, whatever is in it.
pub fn message(text: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text.lines().map(printable).collect();
    lines.join("\n").replace('%', "%25").replace('\n', "%0A").replace("##[", "# #[")
}

/// The value of a command's property, such as the file that it is about.
pub fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

/// The path of a file as annotations take it: from the checkout on.
pub fn path(path: &str) -> &str {
    let checkout = env::var("GITHUB_WORKSPACE").ok().filter(|checkout| !checkout.is_empty());
    let below = checkout.and_then(|checkout| path.strip_prefix(checkout.trim_end_matches('/')));
    below.and_then(|below| below.strip_prefix('/')).unwrap_or(path)
}

/// Passes on what is written, whole lines at a time and none of them a command where a job reads them. What is not
/// ended by the end of a line is passed on when it is flushed or dropped.
#[derive(Debug)]
pub struct Log<W: Write> {
    out: W,
    is_job: bool,
    begun: Vec<u8>,
}

impl<W: Write> Log<W> {
    /// A log for whatever reads `out`.
    pub fn new(out: W) -> Log<W> {
        Log { out, is_job: is_job(), begun: Vec::new() }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.begun);
        self.out.write_all(line(&String::from_utf8_lossy(&text)).as_bytes())
    }
}

impl<W: Write> Write for Log<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_job {
            return self.out.write(bytes);
        }
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.pass_on()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.begun.is_empty() {
            self.pass_on()?;
        }
        self.out.flush()
    }
}

impl<W: Write> Drop for Log<W> {
    fn drop(&mut self) {
        // Whoever wants to know of it flushes before.
        let _ = self.flush();
    }
}

/// A stretch of the log in which no line is a command, from when this is made until it is dropped: between
/// `::stop-commands::TOKEN` and `::TOKEN::`, which nothing that is printed in between can guess.
#[derive(Debug)]
pub struct Stopped {
    token: String,
    /// Where standard output has to stay as it is, the two lines are on standard error: a job's log is of both.
    is_on_stdout: bool,
}

impl Stopped {
    /// Begins it.
    ///
    /// # Errors
    /// When there is no randomness, or nowhere to write to.
    pub fn begin(is_on_stdout: bool) -> io::Result<Stopped> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let token = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let stopped = Stopped { token, is_on_stdout };
        stopped.write(&format!("::stop-commands::{}\n", stopped.token))?;
        Ok(stopped)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        if self.is_on_stdout {
            let mut out = io::stdout().lock();
            return out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
        io::stderr().lock().write_all(text.as_bytes())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if !self.is_on_stdout {
            drained();
        }
        // The console's last line may have no end. Where it cannot be written, commands stay stopped.
        let _ = self.write(&format!("\n::{}::\n", self.token));
    }
}

/// How often a pipe is looked at again, and how often at most: a reader that has stopped is not waited for.
const LOOKS: (Duration, u32) = (Duration::from_millis(5), 200);

/// What the runner has read is in its log soon after; it takes standard error's lines first.
const SOON: Duration = Duration::from_millis(100);

/// Waits until the reader of standard output has taken what was written: what comes on standard error afterwards is
/// later for whoever reads both.
fn drained() {
    for _ in 0..LOOKS.1 {
        match rustix::io::ioctl_fionread(io::stdout()) {
            Ok(1..) => thread::sleep(LOOKS.0),
            _ => break,
        }
    }
    thread::sleep(SOON);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_guarded_by_whole_lines_however_it_is_written() {
        let written = |is_job| {
            let mut out = Vec::new();
            let mut log = Log { out: &mut out, is_job, begun: Vec::new() };
            for piece in ["a\n:", ":err", "or::x\n  ::add-mask::y\nb ::z\n#", "#[stop-commands]t\n::w"] {
                log.write_all(piece.as_bytes()).unwrap();
            }
            drop(log);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(true), "a\n: :error::x\n  : :add-mask::y\nb ::z\n# #[stop-commands]t\n: :w");
        assert_eq!(written(false), "a\n::error::x\n  ::add-mask::y\nb ::z\n##[stop-commands]t\n::w");
    }
}
