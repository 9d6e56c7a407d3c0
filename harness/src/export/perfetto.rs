// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timeline in Perfetto's own format, for <https://ui.perfetto.dev> and its trace processor: a `Trace` of
//! `protos/perfetto/trace/trace.proto` (<https://github.com/google/perfetto>). Only the fields that are written are
//! declared here.
//!
//! There is one packet for each moment, on the track of its task, interrupt, zone nest or counter. Names are interned:
//! each name is written once. Times are the firmware's: nanoseconds of virtual time since the window opened, 2^shift
//! for each instruction, plus the machine's sleep, or the time of the cycles.

use std::io::Write;

use anyhow::{Result, bail};
use prost::Message;

use crate::analysis::event_tracks::{Happens, NOT_RECORDED, Tables, walk};
use crate::export::settings::Settings;
use crate::profile::Profile;
use crate::text::markup::shown;

/// Id of the only sequence of packets.
const SEQUENCE: u32 = 1;

/// `SequenceFlags`: the packet begins a new table of interned names; the packet needs names interned before.
const CLEARED: u32 = 1;
const NEEDS: u32 = 2;

/// `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;

/// `CounterDescriptor.Unit`.
const UNIT_COUNT: i32 = 2;
const UNIT_SIZE_BYTES: i32 = 3;

/// Interned names of an event's additional values: the reason why it ends, and a number.
const WHY: u64 = 1;
const VALUE: u64 = 2;

/// Ids of the process and of the first track; the timeline's tracks follow.
const PID: i32 = 1;
const ROOT: u64 = 1;

/// Uuid of a track.
fn uuid(track: u32) -> u64 {
    ROOT + 1 + u64::from(track)
}

/// Writes the trace.
///
/// # Errors
/// Errors of `out`; also when there is no timeline.
pub fn write(profile: &Profile, settings: &Settings, out: &mut dyn Write) -> Result<()> {
    if profile.timeline.is_none() {
        bail!(NOT_RECORDED);
    }
    let mut writer = Writer { tracks: 0, names: 0, bytes: Vec::new(), out };
    writer.begin(&profile.facts.image_name)?;
    walk(profile, |tables, moment| {
        let interned_data = writer.describe(tables)?;
        let mut event = proto::TrackEvent { track_uuid: Some(uuid(moment.track)), ..proto::TrackEvent::default() };
        match moment.what {
            Happens::Begins(name) => {
                event.kind = Some(SLICE_BEGIN);
                event.name_iid = Some(u64::from(name) + 1);
            }
            Happens::Ends(why) => {
                event.kind = Some(SLICE_END);
                if let Some(why) = why {
                    let text = shown(&tables.names[why as usize]);
                    event.debug_annotations.push(proto::DebugAnnotation {
                        name_iid: Some(WHY),
                        string_value: Some(text),
                        int_value: None,
                    });
                }
            }
            Happens::Is(name, value) => {
                event.kind = Some(INSTANT);
                event.name_iid = Some(u64::from(name) + 1);
                event.debug_annotations.extend(value.map(|value| proto::DebugAnnotation {
                    name_iid: Some(VALUE),
                    string_value: None,
                    int_value: Some(value),
                }));
            }
            Happens::Counts(value) => {
                event.kind = Some(COUNTER);
                event.counter_value = Some(value);
            }
        }
        let timestamp = Some(settings.at_ns(profile, moment.at_insns, moment.beyond_ns));
        writer.put(proto::TracePacket {
            timestamp,
            track_event: Some(event),
            interned_data,
            ..proto::TracePacket::default()
        })
    })?;
    writer.finish()
}

struct Writer<'a> {
    /// Number of tracks and names described so far.
    tracks: usize,
    names: usize,
    bytes: Vec<u8>,
    out: &'a mut dyn Write,
}

impl Writer<'_> {
    fn begin(&mut self, image: &str) -> Result<()> {
        let annotation = |iid, name: &str| proto::Interned { iid: Some(iid), name: Some(name.to_owned()) };
        self.put(proto::TracePacket {
            sequence_flags: Some(CLEARED | NEEDS),
            first_packet_on_sequence: Some(true),
            interned_data: Some(proto::InternedData {
                debug_annotation_names: vec![annotation(WHY, "why"), annotation(VALUE, "value")],
                ..proto::InternedData::default()
            }),
            track_descriptor: Some(proto::TrackDescriptor {
                uuid: Some(ROOT),
                process: Some(proto::ProcessDescriptor { pid: Some(PID), process_name: Some(shown(image)) }),
                ..proto::TrackDescriptor::default()
            }),
            ..proto::TracePacket::default()
        })
    }

    /// Describes the new tracks, and returns the new names.
    fn describe(&mut self, tables: &Tables) -> Result<Option<proto::InternedData>> {
        for (number, track) in tables.tracks.iter().enumerate().skip(self.tracks) {
            let unit = if track.kind.is_bytes() { UNIT_SIZE_BYTES } else { UNIT_COUNT };
            self.put(proto::TracePacket {
                track_descriptor: Some(proto::TrackDescriptor {
                    uuid: Some(uuid(number as u32)),
                    parent_uuid: Some(track.parent.map_or(ROOT, uuid)),
                    name: Some(shown(&track.name)),
                    process: None,
                    counter: track.kind.is_counter().then_some(proto::CounterDescriptor { unit: Some(unit) }),
                }),
                ..proto::TracePacket::default()
            })?;
        }
        self.tracks = tables.tracks.len();
        let new = tables.names.iter().enumerate().skip(self.names);
        let interned = |(number, name): (usize, &String)| proto::Interned {
            iid: Some(number as u64 + 1),
            name: Some(shown(name)),
        };
        let event_names: Vec<_> = new.map(interned).collect();
        self.names = tables.names.len();
        let data = proto::InternedData { event_names, ..proto::InternedData::default() };
        Ok((!data.event_names.is_empty()).then_some(data))
    }

    fn put(&mut self, packet: proto::TracePacket) -> Result<()> {
        let flags = packet.sequence_flags.or(Some(NEEDS));
        let packet = proto::TracePacket { sequence_flags: flags, sequence_id: Some(SEQUENCE), ..packet };
        proto::Trace { packet: vec![packet] }.encode(&mut self.bytes)?;
        if self.bytes.len() > CHUNK_BYTES {
            self.out.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        self.out.write_all(&self.bytes)?;
        Ok(())
    }
}

/// Size in bytes from which collected packets are written.
const CHUNK_BYTES: usize = 1 << 16;

/// Messages of Perfetto with the fields that are written, and the fields' numbers.
mod proto {
    use prost::Message;

    /// Message of `trace.proto`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Trace {
        #[prost(message, repeated, tag = "1")]
        pub(super) packet: Vec<TracePacket>,
    }

    /// Message of `trace_packet.proto`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        pub(super) timestamp: Option<u64>,
        #[prost(uint32, optional, tag = "10")]
        pub(super) sequence_id: Option<u32>,
        #[prost(message, optional, tag = "11")]
        pub(super) track_event: Option<TrackEvent>,
        #[prost(message, optional, tag = "12")]
        pub(super) interned_data: Option<InternedData>,
        #[prost(uint32, optional, tag = "13")]
        pub(super) sequence_flags: Option<u32>,
        #[prost(message, optional, tag = "60")]
        pub(super) track_descriptor: Option<TrackDescriptor>,
        #[prost(bool, optional, tag = "87")]
        pub(super) first_packet_on_sequence: Option<bool>,
    }

    /// Message of `track_event/track_event.proto`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TrackEvent {
        #[prost(message, repeated, tag = "4")]
        pub(super) debug_annotations: Vec<DebugAnnotation>,
        #[prost(int32, optional, tag = "9")]
        pub(super) kind: Option<i32>,
        #[prost(uint64, optional, tag = "10")]
        pub(super) name_iid: Option<u64>,
        #[prost(uint64, optional, tag = "11")]
        pub(super) track_uuid: Option<u64>,
        #[prost(int64, optional, tag = "30")]
        pub(super) counter_value: Option<i64>,
    }

    /// Message of `track_event/debug_annotation.proto`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct DebugAnnotation {
        #[prost(uint64, optional, tag = "1")]
        pub(super) name_iid: Option<u64>,
        #[prost(int64, optional, tag = "4")]
        pub(super) int_value: Option<i64>,
        #[prost(string, optional, tag = "6")]
        pub(super) string_value: Option<String>,
    }

    /// Message of `interned_data/interned_data.proto`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct InternedData {
        #[prost(message, repeated, tag = "2")]
        pub(super) event_names: Vec<Interned>,
        #[prost(message, repeated, tag = "3")]
        pub(super) debug_annotation_names: Vec<Interned>,
    }

    /// Messages `EventName` and `DebugAnnotationName`, which have the same fields.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Interned {
        #[prost(uint64, optional, tag = "1")]
        pub(super) iid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub(super) name: Option<String>,
    }

    /// Message of `track_event/track_descriptor.proto`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TrackDescriptor {
        #[prost(uint64, optional, tag = "1")]
        pub(super) uuid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub(super) name: Option<String>,
        #[prost(message, optional, tag = "3")]
        pub(super) process: Option<ProcessDescriptor>,
        #[prost(uint64, optional, tag = "5")]
        pub(super) parent_uuid: Option<u64>,
        #[prost(message, optional, tag = "8")]
        pub(super) counter: Option<CounterDescriptor>,
    }

    /// Message of `track_event/process_descriptor.proto`.
    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ProcessDescriptor {
        #[prost(int32, optional, tag = "1")]
        pub(super) pid: Option<i32>,
        #[prost(string, optional, tag = "6")]
        pub(super) process_name: Option<String>,
    }

    /// Message of `track_event/counter_descriptor.proto`.
    #[derive(Clone, Copy, PartialEq, Message)]
    pub(super) struct CounterDescriptor {
        #[prost(int32, optional, tag = "3")]
        pub(super) unit: Option<i32>,
    }
}
