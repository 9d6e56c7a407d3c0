// SPDX-License-Identifier: GPL-2.0-or-later
//! Files of the wire format as shared maps: data written survives QEMU's death. The only file with `unsafe` outside
//! of [`crate::qemu`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use engine::ledger::Counters;
use wire::control::{self, Word};
use wire::counters::{self, CHUNK_BYTES, SLOTS_PER_CHUNK};
use wire::stream::StreamFile;

use crate::qemu::{self, descriptor};

/// The run's ledger, kept in these files.
pub(crate) type Ledger = engine::ledger::Ledger<Records>;

/// Bytes by which a growing stream is extended and mapped at a time, so that memory use is constant.
const WINDOW_BYTES: usize = 1 << 20;

/// Name of the counters' file.
const COUNTERS: &str = "counters";

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

/// A shared mapping of a file, unmapped when dropped.
struct Map {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the memory is shared anyway; every access goes through atomics or the plugin's lock.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Extends `file` by allocated bytes and maps them. A full disk is an error here, while touching an unallocated
    /// page of a mapping would be SIGBUS.
    fn extend(file: &File, start: u64, bytes: usize) -> io::Result<Map> {
        // SAFETY: the descriptor is open for writing; no memory is involved.
        let errno = unsafe { libc::posix_fallocate(file.as_raw_fd(), start as libc::off_t, bytes as libc::off_t) };
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno));
        }
        // Below 2 GiB if the host can: an address that fits an instruction's immediate saves two host instructions
        // for each inline counter.
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        const PLACE: [libc::c_int; 2] = [libc::MAP_32BIT, 0];
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        const PLACE: [libc::c_int; 1] = [0];
        for place in PLACE {
            // SAFETY: a new mapping at a place of the kernel's choice; the file is as long as the mapping.
            let address = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | place,
                    file.as_raw_fd(),
                    start as libc::off_t,
                )
            };
            if address != libc::MAP_FAILED {
                return Ok(Map { start: address.cast(), bytes });
            }
        }
        Err(io::Error::last_os_error())
    }

    /// Makes the memory private to this process, which is a copy of the process that writes the file.
    fn keep(&self) -> io::Result<()> {
        // SAFETY: inside the mapping, which nothing writes meanwhile: the run is held.
        let bytes = unsafe { std::slice::from_raw_parts(self.start, self.bytes) }.to_vec();
        // SAFETY: replaces exactly the old mapping; references to it find the same content.
        unsafe {
            let address = libc::mmap(
                self.start.cast(),
                self.bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
            if address == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            self.start.copy_from_nonoverlapping(bytes.as_ptr(), self.bytes);
        }
        Ok(())
    }

    fn u64_at(&self, offset_bytes: usize) -> &AtomicU64 {
        assert!(offset_bytes.is_multiple_of(8) && offset_bytes + 8 <= self.bytes);
        // SAFETY: inside the map, aligned (maps are page-aligned), and only ever accessed as whole
        // u64: by these atomics and by QEMU's generated code, which runs on the thread that called us or not at all.
        unsafe { AtomicU64::from_ptr(self.start.add(offset_bytes).cast()) }
    }

    fn copy_in(&mut self, offset_bytes: usize, bytes: &[u8]) {
        assert!(offset_bytes + bytes.len() <= self.bytes);
        // SAFETY: inside the map; nothing else in this process writes a stream's map.
        unsafe { self.start.add(offset_bytes).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapped range; no reference into it outlives `self`.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

/// The control page.
pub(crate) struct Control(Map);

impl Control {
    /// Sets a word, with release ordering: a reader that sees it sees all earlier writes.
    pub(crate) fn set(&self, word: Word, value: u64) {
        self.0.u64_at(word as usize * 8).store(value, Ordering::Release);
    }
}

/// A file of rows of fixed size: unmodelled accesses, or all accesses.
pub(crate) struct Table(Map);

impl Table {
    /// Creates an empty file in `directory`.
    pub(crate) fn create(directory: &str, name: &str, bytes: usize) -> io::Result<Table> {
        let file = create(&Path::new(directory).join(name))?;
        Ok(Table(Map::extend(&file, 0, bytes)?))
    }

    /// Replaces a row.
    pub(crate) fn put<const WORDS: usize>(&self, row: usize, words: [u64; WORDS]) {
        for (word, value) in words.into_iter().enumerate() {
            self.0.u64_at((row * WORDS + word) * 8).store(value, Ordering::Relaxed);
        }
    }

    /// Counts an access in the row of its address; the first access sets the row's pc.
    pub(crate) fn count(&self, row: usize, address: u64, pc: u64, is_write: bool) {
        let word = |word: usize| self.0.u64_at((row * wire::chip::ROW_WORDS + word) * 8);
        if word(0).load(Ordering::Relaxed) == 0 {
            word(1).store(pc, Ordering::Relaxed);
        }
        let count = word(if is_write { 3 } else { 2 });
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        word(0).store(address + 1, Ordering::Relaxed);
    }
}

/// A file that only grows, mapped one window at a time.
struct Growing {
    file: File,
    window: Map,
    window_start: u64,
    len_bytes: u64,
}

impl Growing {
    fn create(path: &Path) -> io::Result<Growing> {
        let file = descriptor::own(|| create(path))?;
        let window = Map::extend(&file, 0, WINDOW_BYTES)?;
        Ok(Growing { file, window, window_start: 0, len_bytes: 0 })
    }

    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let used = (self.len_bytes - self.window_start) as usize;
            let take = bytes.len().min(WINDOW_BYTES - used);
            if take == 0 {
                self.window_start += WINDOW_BYTES as u64;
                self.window = Map::extend(&self.file, self.window_start, WINDOW_BYTES)?;
                continue;
            }
            self.window.copy_in(used, &bytes[..take]);
            self.len_bytes += take as u64;
            bytes = &bytes[take..];
        }
        Ok(())
    }
}

/// All files of one run.
pub(crate) struct Records {
    /// The control page, shared with the handler for QEMU's abort.
    pub(crate) control: &'static Control,
    /// The streams, by [`StreamFile`]; None: the stream was not requested, and has no record so far.
    streams: [Option<Growing>; StreamFile::COUNT],
    directory: PathBuf,
    counters: File,
    chunks: Vec<Map>,
    vcpus: u32,
    next_slot: u32,
}

impl Records {
    /// Creates the files in `directory`, which must contain none of them. Streams in `wanted` are created at once: an
    /// empty file says that there was no record.
    pub(crate) fn create(directory: &str, vcpus: u32, wanted: &[StreamFile]) -> io::Result<Records> {
        let path = |name: &str| -> PathBuf { Path::new(directory).join(name) };
        let control_file = create(&path("control"))?;
        let control: &'static Control = Box::leak(Box::new(Control(Map::extend(&control_file, 0, control::BYTES)?)));
        let mut records = Records {
            control,
            streams: [const { None }; StreamFile::COUNT],
            directory: directory.into(),
            counters: create(&path(COUNTERS))?,
            chunks: Vec::new(),
            vcpus,
            next_slot: counters::FIRST_DEFINED,
        };
        for &stream in wanted {
            records.stream(stream)?;
        }
        records.reserve(0)?;
        control.set(Word::Version, wire::VERSION);
        control.set(Word::Vcpus, vcpus.into());
        control.set(Word::Magic, wire::MAGIC);
        Ok(records)
    }

    /// Makes all mappings private to this process, which is a copy of the process that writes the files.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let streams = self.streams.iter().flatten().map(|stream| &stream.window);
        [&self.control.0].into_iter().chain(streams).chain(&self.chunks).try_for_each(Map::keep)
    }

    #[inline]
    fn stream(&mut self, stream: StreamFile) -> io::Result<&mut Growing> {
        Ok(match &mut self.streams[stream as usize] {
            Some(growing) => growing,
            none => none.insert(Growing::create(&self.directory.join(stream.name()))?),
        })
    }

    /// Copies the current counters into a file of that name.
    pub(crate) fn keep_counters(&self, name: &str) -> io::Result<()> {
        let [from, to] = [COUNTERS, name].map(|name| self.directory.join(name));
        descriptor::with_own(|| fs::copy(from, to)).map(drop)
    }

    fn reserve(&mut self, slot: u32) -> io::Result<()> {
        while self.chunks.len() as u32 <= slot / SLOTS_PER_CHUNK {
            let bytes = CHUNK_BYTES * self.vcpus as usize;
            let start = self.chunks.len() as u64 * bytes as u64;
            self.chunks.push(Map::extend(&self.counters, start, bytes)?);
        }
        Ok(())
    }
}

impl Counters for Records {
    fn new_slot(&mut self) -> io::Result<u32> {
        let slot = self.next_slot;
        self.reserve(slot)?;
        self.next_slot += 1;
        Ok(slot)
    }

    fn vcpus(&self) -> u32 {
        self.vcpus
    }

    fn counter(&self, slot: u32, vcpu: u32) -> &AtomicU64 {
        let offset = vcpu as usize * CHUNK_BYTES + (slot % SLOTS_PER_CHUNK) as usize * 8;
        self.chunks[(slot / SLOTS_PER_CHUNK) as usize].u64_at(offset)
    }

    fn clear_counters(&self) {
        for slot in counters::FIRST_DEFINED..self.next_slot {
            for vcpu in 0..self.vcpus {
                self.counter(slot, vcpu).store(0, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn append(&mut self, stream: StreamFile, record: &[u8]) -> io::Result<()> {
        let growing = self.stream(stream)?;
        growing.append(record)?;
        let length = growing.len_bytes;
        self.control.set(stream.length(), length);
        Ok(())
    }

    fn say(&self, word: Word, value: u64) {
        self.control.set(word, value);
    }

    fn exit(&self) -> ! {
        qemu::exit(0)
    }

    fn fail(&self, what: &str) -> ! {
        qemu::say(what);
        qemu::exit(1)
    }
}
