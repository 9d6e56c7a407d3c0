// SPDX-License-Identifier: MIT OR Apache-2.0
//! Streams: files to which the plugin only appends items, and their writer and reader.
//!
//! All streams work in the same way. The plugin encodes one item ([`Encoder`]), appends its bytes to a mapped file,
//! and then sets a word of the control page to the file's new length ([`StreamFile`]); bytes beyond it are only
//! reserved. harness decodes that many bytes ([`Decoder`]). The next item is written as a difference from earlier
//! values, which both sides keep. Both refuse an item that cannot come next. So a stream is defined by its items
//! alone: a type that implements [`Stream`].

use crate::Malformed;
use crate::control::Word;
use crate::varint::Reader;
use crate::{heap, slice, timeline};

/// File of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFile {
    /// Meaning of the counters, see [`crate::definition`].
    Definitions,
    /// Samples, see [`crate::sample`].
    Samples,
    /// Events of the heap, see [`crate::heap`].
    Heap,
    /// Events of the timeline, see [`crate::timeline`].
    Timeline,
    /// Parts of the run, see [`crate::slice`].
    Slices,
}

impl StreamFile {
    /// Number of streams.
    pub const COUNT: usize = 5;

    /// Name of the file.
    pub const fn name(self) -> &'static str {
        match self {
            StreamFile::Definitions => "definitions",
            StreamFile::Samples => "samples",
            StreamFile::Heap => heap::FILE_NAME,
            StreamFile::Timeline => timeline::FILE_NAME,
            StreamFile::Slices => slice::FILE_NAME,
        }
    }

    /// Word of the control page that holds the number of its valid bytes.
    pub const fn length(self) -> Word {
        match self {
            StreamFile::Definitions => Word::DefinitionBytes,
            StreamFile::Samples => Word::SampleBytes,
            StreamFile::Heap => Word::HeapBytes,
            StreamFile::Timeline => Word::TimelineBytes,
            StreamFile::Slices => Word::SliceBytes,
        }
    }
}

/// Kind of stream: its items, and the state that writing or reading the next one needs. The default is the state of an
/// empty stream.
pub trait Stream: Default {
    /// Item of the stream.
    type Item;

    /// Name of an item, for errors.
    const WHAT: &'static str;

    /// Whether the item may come next. Both sides check this before anything else.
    fn allows(&self, item: &Self::Item) -> bool;

    /// Appends an item that [`Stream::allows`].
    fn put(&self, item: &Self::Item, out: &mut Vec<u8>);

    /// Reads what [`Stream::put`] wrote, at least a byte.
    ///
    /// # Errors
    /// When the bytes are not an item.
    fn read(&self, reader: &mut Reader<'_>) -> Result<Self::Item, Malformed>;

    /// Notes that the item has come.
    fn note(&mut self, item: &Self::Item);
}

/// Encoder of a stream.
#[derive(Clone, Debug, Default)]
pub struct Encoder<S>(S);

impl<S: Stream> Encoder<S> {
    /// Appends one item to `out`.
    ///
    /// # Errors
    /// When the item cannot come next; nothing is appended.
    #[inline]
    pub fn put(&mut self, item: &S::Item, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if !self.0.allows(item) {
            return Err(Malformed { what: S::WHAT, offset: out.len() });
        }
        self.0.put(item, out);
        self.0.note(item);
        Ok(())
    }
}

/// Decoder of the items that an [`Encoder`] wrote. It ends after the first error, which says where its item starts.
#[derive(Clone, Debug)]
pub struct Decoder<'a, S> {
    reader: Reader<'a>,
    stream: S,
}

impl<'a, S: Stream> Decoder<'a, S> {
    /// Starts at the first byte of a stream.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(bytes, S::WHAT), stream: S::default() }
    }

    fn item(&mut self) -> Result<S::Item, Malformed> {
        let item = self.stream.read(&mut self.reader)?;
        if !self.stream.allows(&item) {
            return Err(Malformed { what: S::WHAT, offset: self.reader.offset });
        }
        self.stream.note(&item);
        Ok(item)
    }
}

impl<S: Stream> Iterator for Decoder<'_, S> {
    type Item = Result<S::Item, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let start = self.reader.offset;
        self.reader.what = S::WHAT;
        Some(self.item().map_err(|error| {
            self.reader.stop();
            Malformed { offset: start, ..error }
        }))
    }
}

/// Promises of every stream, each checked with the items of a stream's own tests.
#[cfg(test)]
pub(crate) mod promises {
    use std::fmt::Debug;

    use super::*;

    /// Encodes items, with the offsets at which they start, and the stream's end.
    fn encode_each<S: Stream<Item: Debug>>(items: &[S::Item]) -> (Vec<u8>, Vec<usize>) {
        let (mut out, mut starts, mut encoder) = (Vec::new(), vec![0], Encoder(S::default()));
        for item in items {
            encoder.put(item, &mut out).unwrap_or_else(|error| panic!("{error}: {item:?}"));
            starts.push(out.len());
        }
        (out, starts)
    }

    /// Encodes items.
    pub(crate) fn encode<S: Stream<Item: Debug>>(items: &[S::Item]) -> Vec<u8> {
        encode_each::<S>(items).0
    }

    /// Decodes up to the first error.
    fn decode<S: Stream>(bytes: &[u8]) -> (Vec<S::Item>, Option<Malformed>) {
        let (mut items, mut decoder) = (Vec::new(), Decoder::<S>::new(bytes));
        for read in decoder.by_ref() {
            match read {
                Ok(item) => items.push(item),
                Err(error) => {
                    assert!(decoder.next().is_none(), "the stream goes on after {error}");
                    return (items, Some(error));
                }
            }
        }
        (items, None)
    }

    /// Checks a stream's promises: written items are read back; a cut anywhere leaves the items before it and one
    /// error at the start of the cut item; every flipped bit is noticed, and none causes a panic.
    pub(crate) fn hold<S: Stream<Item: Debug + PartialEq>>(items: &[S::Item]) {
        let (bytes, starts) = encode_each::<S>(items);
        let (read, error) = decode::<S>(&bytes);
        assert_eq!((&read[..], error), (items, None));
        for cut in 0..bytes.len() {
            let whole = starts.partition_point(|&start| start <= cut) - 1;
            let (read, error) = decode::<S>(&bytes[..cut]);
            assert_eq!(read, items[..whole], "cut at {cut}");
            let place = (starts[whole] < cut).then_some(starts[whole]);
            assert_eq!(error.map(|error| error.offset), place, "cut at {cut}");
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[cut] ^= 1 << bit;
                let (read, error) = decode::<S>(&flipped);
                assert!(error.is_some() || read != items, "byte {cut} bit {bit} does not matter");
            }
        }
    }

    /// Checks that a stream is written as these bytes: after a change of a table's order it would read its own bytes,
    /// but no older ones.
    pub(crate) fn stay<S: Stream<Item: Debug>>(items: &[S::Item], bytes: &str) {
        let written: String = encode::<S>(items).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, bytes);
    }

    /// Checks that a stream refuses each of the bad items after `before`, when it is written and when it is read.
    pub(crate) fn refuse<S: Stream<Item: Debug + PartialEq>>(before: &[S::Item], bad: &[S::Item]) {
        let bytes = encode::<S>(before);
        for item in bad {
            let mut encoder = Encoder(S::default());
            before.iter().for_each(|item| encoder.put(item, &mut Vec::new()).unwrap());
            let mut out = bytes.clone();
            let refused = encoder.put(item, &mut out);
            assert_eq!(refused, Err(Malformed { what: S::WHAT, offset: bytes.len() }), "{item:?}");
            assert_eq!(out, bytes, "{item:?} has left something");
            encoder.0.put(item, &mut out);
            let (read, error) = decode::<S>(&out);
            assert_eq!(read, before, "{item:?}");
            assert_eq!(error.map(|error| error.offset), Some(bytes.len()), "{item:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, record};

    record! {
        /// A stream's item that has one of each kind of field.
        enum Step {
            1 = Up { by: u64, note: Option<String>, },
            2 = To(place: u64),
            3 = Path(places: Vec<(u32, bool)>),
            4 = Rest,
        }
    }

    /// Stream that only rises: each step leads to a place above the last one.
    #[derive(Default)]
    struct Steps {
        at: u64,
    }

    impl Stream for Steps {
        type Item = Step;
        const WHAT: &'static str = "step";

        fn allows(&self, step: &Step) -> bool {
            match step {
                Step::Up { by, .. } => *by > 0 && self.at.checked_add(*by).is_some(),
                Step::To(place) => *place > self.at,
                Step::Path(places) => !places.is_empty(),
                Step::Rest => true,
            }
        }

        fn put(&self, step: &Step, out: &mut Vec<u8>) {
            Record::put(step, out);
        }

        fn read(&self, reader: &mut Reader<'_>) -> Result<Step, Malformed> {
            Record::read(reader)
        }

        fn note(&mut self, step: &Step) {
            match step {
                Step::Up { by, .. } => self.at += by,
                Step::To(place) => self.at = *place,
                _ => {}
            }
        }
    }

    /// Pseudo-random numbers (xorshift64, Marsaglia 2003).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }

        /// A number of any length.
        fn number(&mut self) -> u64 {
            let bits = self.below(62);
            self.below(1 << bits)
        }

        fn step(&mut self, at: &mut u64) -> Step {
            match self.below(4) {
                0 => {
                    let by = 1 + self.below(1000);
                    *at += by;
                    let note = (self.below(2) > 0).then(|| "größe".repeat(self.below(3) as usize));
                    Step::Up { by, note }
                }
                1 => {
                    *at = (*at + 1).max(self.number());
                    Step::To(*at)
                }
                2 => Step::Path((0..=self.below(4)).map(|_| (self.number() as u32, self.below(2) > 0)).collect()),
                _ => Step::Rest,
            }
        }
    }

    #[test]
    fn any_items_survive_any_cut_is_seen_and_no_bit_can_flip_unseen() {
        let mut random = Random(30);
        for _ in 0..50 {
            let mut at = 0;
            let count = random.below(20);
            let steps: Vec<Step> = (0..count).map(|_| random.step(&mut at)).collect();
            promises::hold::<Steps>(&steps);
        }
    }

    #[test]
    fn what_cannot_come_next_is_refused_when_written_and_when_read() {
        let bad = [
            Step::Up { by: 0, note: None },
            Step::Up { by: u64::MAX, note: None },
            Step::To(9),
            Step::Path(Vec::new()),
        ];
        promises::refuse::<Steps>(&[Step::Rest, Step::To(9)], &bad);
    }

    #[test]
    fn bytes_that_are_no_item_are_an_error_with_its_place_and_name() {
        let good = promises::encode::<Steps>(&[Step::Rest, Step::To(3)]);
        let after = |bytes: &[u8]| {
            let bytes = [&good, bytes].concat();
            Decoder::<Steps>::new(&bytes).nth(2).unwrap().unwrap_err()
        };
        let at = |what| Malformed { what, offset: good.len() };
        assert_eq!(after(&[9]), at("Step"));
        assert_eq!(after(&[1, 1, 2]), at("Up's note"));
        assert_eq!(after(&[1, 1, 1, 1, 0xff]), at("Up's note"));
        assert_eq!(after(&[2]), at("To's place"));
        assert_eq!(after(&[2, 3]), at("step"));
        assert_eq!(after(&[3, 0xff, 0xff, 0xff, 0xff, 0x7f]), at("Path's places"));
        assert_eq!(after(&[3, 1, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]), at("Path's places"));
        assert_eq!(after(&[3, 1, 1, 2]), at("Path's places"));
    }

    #[test]
    fn each_file_has_its_own_name_and_word() {
        use StreamFile::{Definitions, Heap, Samples, Slices, Timeline};
        let all = [Definitions, Samples, Heap, Timeline, Slices];
        for (index, file) in all.into_iter().enumerate() {
            assert_eq!(file as usize, index);
            let is_like = |other: &&StreamFile| other.name() == file.name() || other.length() == file.length();
            assert_eq!(all.iter().filter(is_like).count(), 1, "{file:?}");
        }
        assert_eq!(all.len(), StreamFile::COUNT);
    }
}
