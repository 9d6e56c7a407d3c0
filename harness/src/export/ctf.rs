// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline in the Common Trace Format 1.8 (<https://diamon.org/ctf/v1.8.3/>), for babeltrace2 and Trace Compass. It
//! is a directory with `metadata`, which describes the bytes of the other files, and a stream for each CPU.
//!
//! An event names its track and says that an activity begins, ends or happens there, or that a counter changes. A
//! text is never empty, because babeltrace2 2.0 would show the last event's text instead. Times are the firmware's
//! virtual nanoseconds since the window opened. Events are in packets, which begin with their sizes.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Result, bail};

use crate::analysis::event_tracks::{Happens, NOT_RECORDED, walk};
use crate::error::InputError;
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::run::store::directory::{unwritable, write_file};

/// Description of the streams. Numbers are little-endian and unaligned, strings end with a NUL.
const METADATA: &str = r#"/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 32; align = 8; signed = false; base = hex; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;

trace {
    major = 1;
    minor = 8;
    byte_order = le;
    packet.header := struct { uint32_t magic; uint32_t stream_id; };
};

clock {
    name = firmware;
    description = "virtual nanoseconds since the window opened";
    freq = 1000000000;
};

typealias integer { size = 64; align = 8; signed = false; map = clock.firmware.value; } := firmware_ns_t;

stream {
    id = 0;
    packet.context := struct {
        firmware_ns_t timestamp_begin;
        firmware_ns_t timestamp_end;
        uint64_t content_size;
        uint64_t packet_size;
        uint32_t cpu_id;
    };
    event.header := struct { uint8_t id; firmware_ns_t timestamp; };
};

event { id = 0; name = "begins"; stream_id = 0; fields := struct { string track; string name; }; };
event { id = 1; name = "ends"; stream_id = 0; fields := struct { string track; }; };
event { id = 2; name = "is"; stream_id = 0; fields := struct { string track; string name; }; };
event { id = 3; name = "is_with_value"; stream_id = 0; fields := struct { string track; string name; int64_t value; }; };
event { id = 4; name = "counts"; stream_id = 0; fields := struct { string track; int64_t value; }; };
event { id = 5; name = "ends_since"; stream_id = 0; fields := struct { string track; string why; }; };
"#;

/// First word of each packet.
const MAGIC: u32 = 0xc1fc_1fc1;

/// Size of a packet's header.
const HEADER_BYTES: usize = 4 + 4 + 4 * 8 + 4;

/// Size of a packet's events from which the packet is written.
const PACKET_BYTES: usize = 1 << 16;

/// Writes a directory, which must be new or empty: readers take any other file in it for a stream.
///
/// # Errors
/// When the directory has files or cannot be written, or the profile has no timeline.
pub fn write(profile: &Profile, settings: &Settings, directory: &Path) -> Result<()> {
    if profile.timeline.is_none() {
        bail!(NOT_RECORDED);
    }
    fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
    let mut files = fs::read_dir(directory).map_err(|error| unwritable(directory, &error))?;
    if files.next().is_some() {
        let why = "is not empty, and readers take every file in it for a stream; name a new directory with --output";
        return Err(InputError::about(directory, why).into());
    }
    write_file(&directory.join("metadata"), |out| Ok(out.write_all(METADATA.as_bytes())?))?;
    for vcpu in (0..profile.vcpus.len() as u32).filter(|&vcpu| profile.vcpus[vcpu as usize].clock_insns > 0) {
        write_file(&directory.join(format!("cpu{vcpu}")), |out| stream(profile, settings, vcpu, out))?;
    }
    Ok(())
}

/// Writes the events of one CPU.
fn stream(profile: &Profile, settings: &Settings, vcpu: u32, out: &mut dyn Write) -> Result<()> {
    let mut packet = Packet { vcpu, since_ns: 0, until_ns: 0, events: Vec::new() };
    walk(profile, |tables, moment| {
        if moment.vcpu != vcpu {
            return Ok(());
        }
        let ns = settings.at_ns(profile, moment.at_insns, moment.beyond_ns);
        let track = &*tables.title(&tables.tracks[moment.track as usize]);
        let name = |number: u32| tables.names[number as usize].as_str();
        match moment.what {
            Happens::Begins(number) => packet.add(ns, 0, &[track, name(number)], None, out),
            Happens::Ends(None) => packet.add(ns, 1, &[track], None, out),
            Happens::Is(number, None) => packet.add(ns, 2, &[track, name(number)], None, out),
            Happens::Is(number, Some(value)) => packet.add(ns, 3, &[track, name(number)], Some(value), out),
            Happens::Counts(value) => packet.add(ns, 4, &[track], Some(value), out),
            Happens::Ends(Some(why)) => packet.add(ns, 5, &[track, name(why)], None, out),
        }
    })?;
    packet.write(out)
}

/// Packet under construction.
struct Packet {
    vcpu: u32,
    since_ns: u64,
    until_ns: u64,
    events: Vec<u8>,
}

impl Packet {
    fn add(&mut self, ns: u64, id: u8, texts: &[&str], value: Option<i64>, out: &mut dyn Write) -> Result<()> {
        if self.events.len() >= PACKET_BYTES {
            self.write(out)?;
        }
        if self.events.is_empty() {
            self.since_ns = ns;
        }
        self.until_ns = ns;
        self.events.push(id);
        self.events.extend(ns.to_le_bytes());
        for text in texts {
            let text = if text.is_empty() { "?" } else { text };
            self.events.extend(text.bytes().filter(|&byte| byte != 0));
            self.events.push(0);
        }
        self.events.extend(value.iter().flat_map(|value| value.to_le_bytes()));
        Ok(())
    }

    fn write(&mut self, out: &mut dyn Write) -> Result<()> {
        let bits = 8 * (HEADER_BYTES + self.events.len()) as u64;
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&0_u32.to_le_bytes())?;
        for number in [self.since_ns, self.until_ns, bits, bits] {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(&self.vcpu.to_le_bytes())?;
        out.write_all(&self.events)?;
        self.events.clear();
        Ok(())
    }
}
