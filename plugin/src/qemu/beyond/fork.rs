// SPDX-License-Identifier: GPL-2.0-or-later
//! A copy of the whole process, made in the middle of an instruction's callback: a checkpoint, whose cost is the
//! memory written since.
//!
//! fork(2) copies only the calling thread. That is the thread which executes the guest, at any place of generated
//! code. The copy lacks QEMU's main thread. A run under icount needs that thread for one task: when all vCPUs wait,
//! it moves virtual time to the next timer and runs due work. A thread of ours does that in the copy
//! ([`Timekeeper`]), woken by the same descriptors.
//!
//! Resources that a copy must not share with its original are replaced: the maps of records, the firmware's output,
//! the event descriptors by which threads wake each other, the position in the firmware's input. The monitor's socket
//! and the console's pipes are closed. Memory that QEMU excludes from copies (guest RAM, for the sake of virtual
//! machines in the kernel) is copied, too.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wire::trick::COPIES;

use super::symbol;
use crate::qemu::socket::Socket;
use crate::qemu::{descriptor, exit};

/// Longest wait of the timekeeper, in milliseconds; QEMU's main thread polls now and then, too.
const GLANCE_MS: c_int = 5;

/// Longest time for work in a copy; normally it takes microseconds.
const ASIDE_PATIENCE: Duration = Duration::from_secs(2);

type Action = unsafe extern "C" fn();
type Lock = unsafe extern "C" fn(*const c_char, c_int);
type IsLocked = unsafe extern "C" fn() -> bool;
type Context = unsafe extern "C" fn() -> *mut c_void;
type PollContext = unsafe extern "C" fn(*mut c_void) -> c_int;
type RunTimers = unsafe extern "C" fn() -> bool;

/// Functions of QEMU's that a copy needs, outside the plugin API.
#[derive(Clone, Copy)]
struct Functions {
    is_locked: IsLocked,
    lock: Lock,
    unlock: Action,
    /// `qemu_get_aio_context` and `aio_bh_poll`: deferred work.
    context: Context,
    poll_context: PollContext,
    /// `icount_start_warp_timer`: advances virtual time while no vCPU executes.
    warp: Action,
    run_timers: RunTimers,
    register_thread: Action,
}

/// Makes copies of the process.
pub(crate) struct Copier {
    functions: Functions,
    /// Replacements in each copy, by file descriptor.
    replacements: Vec<(RawFd, Replacement)>,
    /// The process's mappings, all marked to be copied.
    copied: String,
    is_copy: bool,
}

/// Replacement of a descriptor in a copy.
#[derive(Clone, Debug)]
enum Replacement {
    /// Null device: the copy does not use it.
    Null,
    /// Event descriptor that only the copy's threads use.
    Event,
    /// Memory file of the same length, whose content is not read.
    Memory { appends: bool },
    /// The same file with a position of its own.
    Reopened(PathBuf),
}

/// Process in which a call of `fork` returns.
pub(crate) enum Side {
    /// The copied process.
    Original,
    /// The copy.
    Copy,
}

impl Copier {
    /// Finds QEMU's functions. None: this QEMU is not known, or lacks loadable modules, without which it does not
    /// export them.
    pub(crate) fn find() -> Option<Copier> {
        let find = |name: &CStr| symbol(&COPIES, name);
        let (is_locked, lock, unlock) = (find(c"bql_locked")?, find(c"bql_lock_impl")?, find(c"bql_unlock")?);
        let (context, poll_context) = (find(c"qemu_get_aio_context")?, find(c"aio_bh_poll")?);
        let (warp, run_timers) = (find(c"icount_start_warp_timer")?, find(c"qemu_clock_run_all_timers")?);
        let register_thread = find(c"rcu_register_thread")?;
        // SAFETY: in the releases of the table's row the functions of these names have
        // these types; the program itself exports them and stays loaded.
        let functions = unsafe {
            Functions {
                is_locked: mem::transmute::<*mut c_void, IsLocked>(is_locked),
                lock: mem::transmute::<*mut c_void, Lock>(lock),
                unlock: mem::transmute::<*mut c_void, Action>(unlock),
                context: mem::transmute::<*mut c_void, Context>(context),
                poll_context: mem::transmute::<*mut c_void, PollContext>(poll_context),
                warp: mem::transmute::<*mut c_void, Action>(warp),
                run_timers: mem::transmute::<*mut c_void, RunTimers>(run_timers),
                register_thread: mem::transmute::<*mut c_void, Action>(register_thread),
            }
        };
        Some(Copier { functions, replacements: Vec::new(), copied: String::new(), is_copy: false })
    }

    /// Makes a copy; only in a callback of the vCPU. `console` is the file of the firmware's output, `records` the
    /// directory of the records, `socket` the copy's own. `is_resting` tells whether QEMU's main thread waits for
    /// file descriptors.
    pub(crate) fn fork(
        &mut self,
        console: &str,
        records: &str,
        socket: &Socket,
        is_resting: impl Fn() -> bool,
    ) -> io::Result<Side> {
        if self.fork_quietly(console, records, socket, is_resting)? > 0 {
            return Ok(Side::Original);
        }
        // After a partial replacement two processes would share one socket.
        let Ok(events) = self.replace() else { exit(1) };
        Timekeeper { functions: self.functions, events }.start();
        Ok(Side::Copy)
    }

    /// Forks as fork(2) does. So far, memory is the only resource that the copy does not share.
    fn fork_quietly(
        &mut self,
        console: &str,
        records: &str,
        socket: &Socket,
        is_resting: impl Fn() -> bool,
    ) -> io::Result<libc::pid_t> {
        if !self.is_copy {
            self.replacements = replacements(Path::new(console), Path::new(records), socket.number())?;
            // The kernel takes milliseconds to list each mapping's flags.
            let maps = fs::read_to_string("/proc/self/maps")?;
            if maps != self.copied {
                copy_all_memory()?;
                self.copied = maps;
            }
            // Ended copies need not be waited for.
            // SAFETY: no handler.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
        let Functions { is_locked, lock, unlock, .. } = self.functions;
        // SAFETY: any thread of QEMU's may call it.
        let was_locked = unsafe { is_locked() };
        // A copy would keep any lock that QEMU's other threads hold, for ever. If this thread has the big lock and
        // the main thread waits for descriptors, the main thread holds no other lock. The same applies to a copy's
        // timekeeper.
        for look in 0.. {
            if !was_locked {
                // SAFETY: this thread does not have it; the name lives for ever.
                unsafe { lock(c"profiler plugin".as_ptr(), 0) };
            }
            if self.is_copy || is_resting() {
                break;
            }
            if !was_locked {
                // SAFETY: this thread has it.
                unsafe { unlock() };
            }
            if was_locked || look == RESTING_LOOKS {
                return Err(io::Error::other("QEMU's main thread does not rest"));
            }
            thread::yield_now();
        }
        // SAFETY: fork(2) copies this thread, which goes on in both. The C library keeps its allocator consistent in
        // the copy.
        let child = unsafe { libc::fork() };
        let error = io::Error::last_os_error();
        if child == 0 {
            self.is_copy = true;
            TIMEKEEPER_RESTS.store(true, Ordering::Relaxed);
        }
        if !was_locked {
            // SAFETY: this thread has it, in both processes.
            unsafe { unlock() };
        }
        if child < 0 { Err(error) } else { Ok(child) }
    }

    /// Result of `work`, done in a copy that exits afterwards. None: `work` returned nothing, the copy ended
    /// otherwise, or it took too long.
    pub(crate) fn aside(
        &mut self,
        console: &str,
        records: &str,
        is_resting: impl Fn() -> bool,
        work: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().ok()?;
        let (mut ours, mut theirs) = (Socket::of(ours), Socket::of(theirs));
        match self.fork_quietly(console, records, &theirs, is_resting).ok()? {
            0 => {
                let found = self.replace().ok().and_then(|_| work());
                let _ = found.map(|found| theirs.stream().write_all(&found));
                exit(0)
            }
            copy => {
                drop(theirs);
                let stream = ours.stream();
                stream.set_read_timeout(Some(ASIDE_PATIENCE)).ok()?;
                let mut found = Vec::new();
                let is_read = stream.read_to_end(&mut found).is_ok();
                if !is_read {
                    // SAFETY: a child of this process, which has not been waited for.
                    unsafe { libc::kill(copy, libc::SIGKILL) };
                }
                (is_read && !found.is_empty()).then_some(found)
            }
        }
    }

    /// Replaces resources that the copy must not share. Returns its event descriptors. Some may be above the firmware's limit.
    fn replace(&self) -> io::Result<Vec<RawFd>> {
        descriptor::with_own(|| self.replace_all())
    }

    fn replace_all(&self) -> io::Result<Vec<RawFd>> {
        let mut events = Vec::new();
        for (descriptor, replacement) in &self.replacements {
            // SAFETY: system calls on descriptors of this process, whose owners do not depend on the files behind
            // them; texts end in NUL, and structures live until the calls have returned.
            let is_done = unsafe {
                let put = |new: RawFd| {
                    let is_put = new >= 0 && libc::dup2(new, *descriptor) >= 0;
                    if new >= 0 {
                        libc::close(new);
                    }
                    is_put
                };
                match replacement {
                    Replacement::Null => put(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR)),
                    Replacement::Event => {
                        events.push(*descriptor);
                        put(libc::eventfd(0, libc::EFD_NONBLOCK))
                    }
                    Replacement::Memory { appends } => {
                        let mut status: libc::stat = mem::zeroed();
                        let is_known = libc::fstat(*descriptor, &raw mut status) == 0;
                        let memory = libc::memfd_create(c"copy".as_ptr(), 0);
                        let is_sized = is_known && libc::ftruncate(memory, status.st_size) == 0;
                        let is_set = !appends || libc::fcntl(memory, libc::F_SETFL, libc::O_APPEND) == 0;
                        put(memory) && is_sized && is_set
                    }
                    Replacement::Reopened(path) => {
                        let place = libc::lseek(*descriptor, 0, libc::SEEK_CUR);
                        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
                        let is_put = put(libc::open(path.as_ptr(), libc::O_RDONLY));
                        is_put && libc::lseek(*descriptor, place, libc::SEEK_SET) == place
                    }
                }
            };
            if !is_done {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(events)
    }
}

/// Most checks whether QEMU's main thread rests, before the copy is given up.
const RESTING_LOOKS: u32 = 100_000;

/// Descriptors that a copy must not share, with their replacements.
fn replacements(console: &Path, records: &Path, kept: RawFd) -> io::Result<Vec<(RawFd, Replacement)>> {
    let console = fs::canonicalize(console)?;
    let records = fs::canonicalize(records)?;
    let mut replacements = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let (Ok(target), Some(Ok(descriptor))) =
            (fs::read_link(entry.path()), entry.file_name().to_str().map(str::parse::<RawFd>))
        else {
            continue;
        };
        let kind = target.to_string_lossy().into_owned();
        if descriptor == kept {
            continue;
        }
        let replacement = if kind.starts_with("socket:") || kind.starts_with("pipe:") {
            Replacement::Null
        } else if kind.starts_with("anon_inode:[eventfd") {
            Replacement::Event
        } else if target == console {
            Replacement::Memory { appends: true }
        } else if target.parent() == Some(&records) {
            Replacement::Memory { appends: false }
        } else if descriptor == libc::STDIN_FILENO && target.is_file() {
            Replacement::Reopened(target)
        } else if target.extension().is_some_and(|end| end == "in" || end == "readc") {
            // The console's pipes have names.
            Replacement::Null
        } else {
            continue;
        };
        replacements.push((descriptor, replacement));
    }
    Ok(replacements)
}

/// Marks all memory of the process to be copied, since QEMU has excluded a part.
fn copy_all_memory() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/smaps")?;
    let mut range = None;
    for line in maps.lines() {
        // proc(5): "start-end perms …" begins a mapping, and "VmFlags:" has `dc` where it is not copied.
        let words: Vec<&str> = line.split(' ').collect();
        if let Some((start, end)) = words[0].split_once('-')
            && let (Ok(start), Ok(end)) = (usize::from_str_radix(start, 16), usize::from_str_radix(end, 16))
        {
            range = Some((start, end));
        } else if let (Some((start, end)), true) = (range, words[0] == "VmFlags:" && words.contains(&"dc")) {
            // SAFETY: a mapping of this process, whose contents do not change.
            if unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DOFORK) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Whether the run is held, so that the timekeeper has no work.
static TIMEKEEPER_RESTS: AtomicBool = AtomicBool::new(true);

/// The timekeeper's thread of this process, to be woken.
static TIMEKEEPER: OnceLock<std::sync::Mutex<Option<Thread>>> = OnceLock::new();

/// Notes whether the run executes. A copy's timekeeper works only while it does.
pub(crate) fn executes(is_executing: bool) {
    TIMEKEEPER_RESTS.store(!is_executing, Ordering::SeqCst);
    if is_executing
        && let Some(thread) =
            TIMEKEEPER.get().and_then(|thread| thread.lock().ok()).as_deref().and_then(Option::as_ref)
    {
        thread.unpark();
    }
}

/// A copy's replacement for QEMU's main thread.
struct Timekeeper {
    functions: Functions,
    events: Vec<RawFd>,
}

impl Timekeeper {
    fn start(self) {
        let handle = thread::spawn(move || self.work());
        let cell = TIMEKEEPER.get_or_init(Default::default);
        if let Ok(mut thread) = cell.lock() {
            *thread = Some(handle.thread().clone());
        }
    }

    fn work(&self) {
        let Functions { lock, unlock, context, poll_context, warp, run_timers, register_thread, .. } = self.functions;
        // SAFETY: once for this thread.
        unsafe { register_thread() };
        loop {
            while TIMEKEEPER_RESTS.load(Ordering::SeqCst) {
                thread::park();
            }
            self.wait();
            // SAFETY: see `Copier::find` for the types; each is called as QEMU's main thread calls it, under the lock.
            unsafe {
                lock(c"profiler plugin".as_ptr(), 0);
                poll_context(context());
                warp();
                run_timers();
                unlock();
            }
        }
    }

    /// Waits until a thread wakes QEMU's main thread.
    fn wait(&self) {
        let poll = |&fd: &RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polls: Vec<libc::pollfd> = self.events.iter().map(poll).collect();
        // SAFETY: the array has that many elements.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, GLANCE_MS) };
        for poll in polls.iter().filter(|poll| poll.revents & libc::POLLIN != 0) {
            let mut count = [0u8; 8];
            // SAFETY: an event descriptor's eight bytes; it does not block.
            unsafe { libc::read(poll.fd, count.as_mut_ptr().cast(), count.len()) };
        }
    }
}
