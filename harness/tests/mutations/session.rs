// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tries inputs in a process of their own, so that aborts, stack overflows, unbounded memory and hangs are findings
//! like a panic. Each input follows from the target's name and a number alone, and the number is printed before the
//! input is tried.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};

use super::random::Random;

/// Well-formed input, from which mutated ones are made.
pub(crate) struct Seed {
    /// Origin of the input.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Reader of inputs under test.
pub(crate) struct Target {
    /// Name of the target and of its test.
    pub(crate) name: &'static str,
    /// Number of inputs that `cargo test` tries.
    pub(crate) count: u64,
    /// Makes the seeds' files, where that takes a run of firmware.
    pub(crate) prepare: fn(&Path),
    /// Returns the seeds, in a fixed order.
    pub(crate) seeds: fn(&Path) -> Vec<Seed>,
    /// Makes an input from the seed with the given index.
    pub(crate) mutate: fn(&mut Random, &[Seed], usize) -> Vec<u8>,
    /// Reads an input and shows it if it is well-formed; returns whether it is. The directory is for files.
    pub(crate) read: fn(&Seed, &[u8], &Path) -> bool,
}

/// Time limit, far above any input's time, even on a busy machine.
const WATCHDOG: Duration = Duration::from_secs(120);
/// Memory limit, far above the need of inputs smaller than a megabyte.
const MEMORY_BYTES: u64 = 3 << 30;
/// Number of findings after which the search stops.
const MOST_FINDINGS: usize = 25;

/// Environment variable for the child: the first number, the number of inputs, and the directory.
const CHILD: &str = "HARNESS_MUTATIONS_CHILD";

fn number_of(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

impl Target {
    /// Tries inputs: the default ones of `cargo test`, or those that the environment asks for (docs/security.md).
    pub(crate) fn run(&self) {
        if let Ok(words) = env::var(CHILD) {
            let mut words = words.splitn(3, ' ');
            let mut word = || words.next().expect("the parent says three");
            let (first, count) = (word().parse().expect("a number"), word().parse().expect("a number"));
            return self.child(first, count, Path::new(word()));
        }
        let first = number_of("HARNESS_MUTATIONS_FROM").unwrap_or(0);
        let count = number_of("HARNESS_MUTATIONS").unwrap_or(self.count);
        let dir = tempfile::tempdir().unwrap();
        (self.prepare)(dir.path());
        let (mut next, end) = (first, first.saturating_add(count));
        let mut findings = Vec::new();
        let began = Instant::now();
        while next < end && findings.len() < MOST_FINDINGS {
            let Some((number, what)) = self.parent(next, end - next, dir.path()) else { break };
            findings.push(format!(
                "{what}\n  again: HARNESS_MUTATIONS_FROM={number} HARNESS_MUTATIONS=1 cargo test --test promises mutations::\
                 {} -- --exact",
                self.name
            ));
            next = number + 1;
        }
        println!("{}: {} inputs in {} s", self.name, end.min(next.max(end)) - first, began.elapsed().as_secs());
        assert!(findings.is_empty(), "{}: {} findings\n{}", self.name, findings.len(), findings.join("\n"));
    }

    /// Tries inputs in a child; returns the number of the input at which it ended, and how.
    fn parent(&self, first: u64, count: u64, dir: &Path) -> Option<(u64, String)> {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([format!("mutations::{}", self.name).as_str(), "--exact", "--nocapture", "--test-threads=1"]);
        command.env(CHILD, format!("{first} {count} {}", dir.display()));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (send, receive) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = thread::spawn(move || {
            let numbers =
                lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("input ")?.parse::<u64>().ok());
            numbers.for_each(|number| send.send(number).expect("it is received until the child ends"));
        });
        let mut errors = child.stderr.take().unwrap();
        let said = thread::spawn(move || {
            let mut said = Vec::new();
            drop(errors.read_to_end(&mut said));
            String::from_utf8_lossy(&said).into_owned()
        });
        let mut last = None;
        let hangs = loop {
            match receive.recv_timeout(WATCHDOG) {
                Ok(number) => last = Some(number),
                Err(RecvTimeoutError::Disconnected) => break false,
                Err(RecvTimeoutError::Timeout) => break true,
            }
        };
        if hangs {
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        reader.join().unwrap();
        let said = said.join().unwrap();
        if status.success() && last == (first + count).checked_sub(1) {
            said.lines()
                .filter(|line| line.contains("well-formed") || line.contains(" took "))
                .for_each(|line| println!("{line}"));
            return None;
        }
        let last = last.unwrap_or_else(|| panic!("{}: no input was tried ({status})\n{said}", self.name));
        let how = if hangs { format!("hangs for {} s", WATCHDOG.as_secs()) } else { status.to_string() };
        Some((last, format!("input {last}: {how}\n{said}")))
    }

    /// Tries the inputs in this process.
    fn child(&self, first: u64, count: u64, dir: &Path) {
        setrlimit(Resource::RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES).unwrap();
        let seeds = (self.seeds)(dir);
        let salt = self.name.bytes().fold(0, |salt: u64, byte| salt.wrapping_mul(31).wrapping_add(byte.into()));
        let keep = env::var_os("HARNESS_MUTATIONS_KEEP").map(PathBuf::from);
        let scratch = dir.join("scratch");
        fs::create_dir_all(&scratch).unwrap();
        // A refused seed would test nothing.
        for seed in seeds.iter().filter(|_| first == 0) {
            assert!((self.read)(seed, &seed.bytes, &scratch), "{} is refused", seed.name);
        }
        let mut well_formed = 0;
        for number in first..first + count {
            println!("input {number}");
            let mut random = Random::new(number ^ salt << 32);
            let seed = random.below(seeds.len());
            let bytes = (self.mutate)(&mut random, &seeds, seed);
            if let Some(keep) = &keep {
                fs::write(keep, &bytes).unwrap();
            }
            let began = Instant::now();
            well_formed += u64::from((self.read)(&seeds[seed], &bytes, &scratch));
            if began.elapsed() > Duration::from_secs(3) {
                eprintln!("input {number} of {} took {} ms", seeds[seed].name, began.elapsed().as_millis());
            }
        }
        eprintln!("{}: {well_formed} of {count} inputs were well-formed", self.name);
    }
}
