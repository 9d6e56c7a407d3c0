// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text for the log of a CI job. GitHub reads commands from the log: `::error::…` at the start of a line, `##[…]`
//! anywhere (<https://docs.github.com/actions/reference/workflow-commands-for-github-actions>). Azure Pipelines and
//! TeamCity have commands in brackets of their own ([`super::bracket`]). Names and console output come from the firmware
//! and must not become commands.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;
use std::{env, thread};

use crate::text::bracket;
use crate::text::printable::printable;

/// Whether the process runs in a GitHub job.
pub fn is_job() -> bool {
    env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Variables that Azure Pipelines and TeamCity set for a job.
const OTHER_JOBS: [&str; 2] = ["TF_BUILD", "TEAMCITY_VERSION"];

/// Whether the process's output is the log of a job in which a CI server looks for commands.
pub fn is_log() -> bool {
    is_job() || OTHER_JOBS.iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Makes a line that is not a command: `: :error::…`, `# #[…]`.
pub fn line(line: &str) -> Cow<'_, str> {
    // The runner skips leading space.
    let text = line.trim_start();
    let Some(rest) = text.strip_prefix("::") else { return bracket::disarmed(line) };
    let space = &line[..line.len() - text.len()];
    Cow::Owned(format!("{space}: :{}", bracket::disarmed(rest)))
}

/// Escapes the message of a command: one line, whatever the text contains.
pub fn message(text: &str) -> String {
    let lines: Vec<Cow<'_, str>> = text.lines().map(printable).collect();
    bracket::disarmed(&lines.join("\n").replace('%', "%25").replace('\n', "%0A")).into_owned()
}

/// Escapes the value of a command's property, such as a file name.
pub fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

/// Path of a file in the form that annotations need: relative to the checkout.
pub fn path(path: &str) -> &str {
    let checkout = env::var("GITHUB_WORKSPACE").ok().filter(|checkout| !checkout.is_empty());
    let below = checkout.and_then(|checkout| path.strip_prefix(checkout.trim_end_matches('/')));
    below.and_then(|below| below.strip_prefix('/')).unwrap_or(path)
}

/// Writer that passes on whole lines, and disarms commands in a CI job's log. An incomplete line is passed on when the
/// writer is flushed or dropped.
#[derive(Debug)]
pub struct Log<W: Write> {
    out: W,
    is_log: bool,
    begun: Vec<u8>,
}

impl<W: Write> Log<W> {
    /// Wraps `out`. Commands are disarmed if the process runs in a job of a CI server that reads them.
    pub fn new(out: W) -> Log<W> {
        Log { out, is_log: is_log(), begun: Vec::new() }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.begun);
        self.out.write_all(line(&String::from_utf8_lossy(&text)).as_bytes())
    }
}

impl<W: Write> Write for Log<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_log {
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
        // Callers that need the error flush before they drop the writer.
        let _ = self.flush();
    }
}

/// Stretch of the log in which no line is a command, from creation to drop. It lies between `::stop-commands::TOKEN`
/// and `::TOKEN::`; text printed in between cannot guess the token.
#[derive(Debug)]
pub struct Stopped {
    token: String,
    /// Whether the two lines go to standard output. Otherwise they go to standard error, so that standard output stays
    /// unchanged; the job's log has both.
    is_on_stdout: bool,
}

impl Stopped {
    /// Begins the stretch.
    ///
    /// # Errors
    /// When no random numbers are available, or the line cannot be written.
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
        // The console's last line may have no line end. If this write fails, commands stay stopped.
        let _ = self.write(&format!("\n::{}::\n", self.token));
    }
}

/// Interval between two looks at a pipe, and the maximum number of looks: a reader that has stopped does not keep
/// harness waiting.
const LOOKS: (Duration, u32) = (Duration::from_millis(5), 200);

/// Time after which text that the runner has read is in its log. The runner reads standard error's lines first.
const SOON: Duration = Duration::from_millis(100);

/// Waits until the reader of standard output has taken all written text. For a reader of both, text that is written to
/// standard error afterwards comes later.
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
        let written = |is_log| {
            let mut out = Vec::new();
            let mut log = Log { out: &mut out, is_log, begun: Vec::new() };
            for piece in ["a\n:", ":err", "or::x\n  ::add-mask::y\nb ::z\n#", "#[stop-commands]t\n##v", "so[x]\n::w"]
            {
                log.write_all(piece.as_bytes()).unwrap();
            }
            drop(log);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(true), "a\n: :error::x\n  : :add-mask::y\nb ::z\n# #[stop-commands]t\n# #vso[x]\n: :w");
        assert_eq!(written(false), "a\n::error::x\n  ::add-mask::y\nb ::z\n##[stop-commands]t\n##vso[x]\n::w");
    }
}
