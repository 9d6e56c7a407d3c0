// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the two sides of the wire write for each other.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use harness::profile::Profile;
use harness::run::records::read::Records;
use wire::control::Control;
use wire::request::Request;
use wire::stream::{Decoder, Stream, StreamFile};
use wire::{definition, heap, memory, refusal, sample, slice, timeline, unwind};

use super::mutate;
use super::random::Random;
use super::session::Seed;
use super::{made, saved};

/// Files of the runs, by path; reserved files are cut to their used part.
pub(crate) fn seeds(dir: &Path) -> Vec<Seed> {
    let runs = dir.join("records");
    let mut names: Vec<_> = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let mut seeds: Vec<Seed> = names.iter().flat_map(|run| made::files(run, "")).collect();
    for seed in &mut seeds {
        let path = Path::new(&seed.name);
        let Some(stream) = stream(path.file_name().unwrap().to_str().unwrap()) else { continue };
        let control = Control::read(&fs::read(path.with_file_name("control")).unwrap()).unwrap();
        seed.bytes.truncate(control.get(stream.length()) as usize);
    }
    seeds
}

/// The stream that a file is.
fn stream(name: &str) -> Option<StreamFile> {
    use StreamFile::{Definitions, Heap, Samples, Slices, Timeline};
    [Definitions, Samples, Heap, Timeline, Slices].into_iter().find(|stream| stream.name() == name)
}

/// Decodes all of a stream, or up to its first error.
fn decode<S: Stream>(bytes: &[u8]) {
    drop(Decoder::<S>::new(bytes).collect::<Result<Vec<_>, _>>());
}

pub(crate) fn mutated(random: &mut Random, seeds: &[Seed], seed: usize) -> Vec<u8> {
    let mut bytes = seeds[seed].bytes.clone();
    // Mutates the used part of the page, and usually the first counters.
    let used = match Path::new(&seeds[seed].name).file_name().unwrap().to_str().unwrap() {
        "control" => 256,
        "counters" if random.percent(80) => 4096,
        _ => bytes.len(),
    };
    let rest = bytes.split_off(used.min(bytes.len()));
    mutate::bytes(random, &mut bytes);
    if !rest.is_empty() {
        bytes.resize(used, 0);
    }
    bytes.extend(rest);
    bytes
}

/// Reads the file on its own, then the whole run with this file in place.
pub(crate) fn read(seed: &Seed, bytes: &[u8], scratch: &Path) -> bool {
    let path = Path::new(&seed.name);
    let (run, name) = (path.parent().unwrap(), path.file_name().unwrap());
    let stream = stream(name.to_str().unwrap());
    match stream {
        Some(StreamFile::Definitions) => decode::<definition::Definitions>(bytes),
        Some(StreamFile::Samples) => decode::<sample::Samples>(bytes),
        Some(StreamFile::Heap) => decode::<heap::Events>(bytes),
        Some(StreamFile::Timeline) => decode::<timeline::Events>(bytes),
        Some(StreamFile::Slices) => decode::<slice::Slices>(bytes),
        None if name == "request" => {
            if let Ok(request) = Request::read(bytes) {
                drop(request.put(&mut Vec::new()));
            }
        }
        None => {}
    }
    drop(memory::read(bytes));
    drop(unwind::read(bytes));
    drop(refusal::Refusal::read(bytes));
    let with = scratch.join("records");
    let _ = fs::remove_dir_all(&with);
    fs::create_dir(&with).unwrap();
    for entry in fs::read_dir(run).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == name {
            let mut bytes = bytes.to_vec();
            if stream.is_some() {
                // The control page gives the length that it must have.
                bytes.resize(fs::metadata(entry.path()).unwrap().len() as usize, 0);
            }
            fs::write(with.join(name), bytes).unwrap();
        } else {
            symlink(entry.path(), with.join(entry.file_name())).unwrap();
        }
    }
    let Ok(records) = Records::read(&with) else { return false };
    let beside =
        fs::read(run.parent().unwrap().with_file_name(format!("{}.fwp", run.file_name().unwrap().display())));
    let Profile { facts, names, code, in_target, .. } = Profile::from_bytes(&beside.unwrap()).unwrap();
    let profile = records.into_profile(facts, names, code, in_target);
    saved::show(&profile);
    true
}
