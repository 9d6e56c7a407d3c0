//! A copy of the whole process, made in the middle of an instruction's callback: a checkpoint that costs what has been
//! written since.
//!
//! fork(2) copies the calling thread alone: the one that executes the guest, wherever in generated code it is. What the
//! copy lacks is QEMU's main thread, of which a run under icount needs one thing: when all vCPUs wait, it moves virtual
//! time to the next timer and runs what is due. A thread of ours does that there ([`Timekeeper`]), woken by what wakes
//! QEMU's.
//!
//! What the copies would share with the process that they were made of, and must not, is replaced: the records' maps, what
//! the firmware prints, the event descriptors that threads wake each other by, the place in the firmware's input. The
//! monitor's socket and the console's pipes are closed. Memory that QEMU has kept from copies (guest RAM, which matters
//! to virtual machines in the kernel) is copied, too.

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
use crate::qemu::exit;
use crate::qemu::socket::Socket;

/// How long the timekeeper waits before it looks by itself, as QEMU's main thread does now and then.
const GLANCE_MS: c_int = 5;

/// How long what is done aside may take; it takes microseconds.
const ASIDE_PATIENCE: Duration = Duration::from_secs(2);

type Action = unsafe extern "C" fn();
type Lock = unsafe extern "C" fn(*const c_char, c_int);
type IsLocked = unsafe extern "C" fn() -> bool;
type Context = unsafe extern "C" fn() -> *mut c_void;
type PollContext = unsafe extern "C" fn(*mut c_void) -> c_int;
type RunTimers = unsafe extern "C" fn() -> bool;

/// The functions of QEMU's that a copy needs, which are none of the plugin API's.
#[derive(Clone, Copy)]
struct Functions {
    is_locked: IsLocked,
    lock: Lock,
    unlock: Action,
    /// `qemu_get_aio_context` and `aio_bh_poll`: work that was put off.
    context: Context,
    poll_context: PollContext,
    /// `icount_start_warp_timer`: has virtual time go on where nothing executes.
    warp: Action,
    run_timers: RunTimers,
    register_thread: Action,
}

/// What makes copies of the process.
pub(crate) struct Copier {
    functions: Functions,
    /// What each copy gets in place of what it would share.
    replacements: Vec<(RawFd, Replacement)>,
    /// The process's mappings, all of which are copied.
    copied: String,
    is_copy: bool,
}

/// What takes the place of a descriptor in a copy.
#[derive(Clone, Debug)]
enum Replacement {
    /// Nothing is read from it or written to it any more.
    Null,
    /// One that only the copy's threads wake each other by.
    Event,
    /// A file of its own, as long, of which nothing is read.
    Memory { appends: bool },
    /// The same file with a place of its own in it.
    Reopened(PathBuf),
}

/// Which of the two processes goes on.
pub(crate) enum Side {
    /// That which was copied.
    Original,
    /// The copy.
    Copy,
}

impl Copier {
    /// Finds QEMU's functions. None: a QEMU that shows its functions to modules of its own has them, and this one does not or
    /// is not known.
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

    /// Makes a copy; only in a callback of the vCPU. `console` is where the firmware's output goes, `records` the
    /// directory of the records, `socket` is the copy's, and `is_resting` says of QEMU's main thread that it waits for
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
        // Half of it would have two processes talk over one socket.
        let Ok(events) = self.replace() else { exit(1) };
        Timekeeper { functions: self.functions, events }.start();
        Ok(Side::Copy)
    }

    /// As fork(2); in the copy nothing is its own yet but memory.
    fn fork_quietly(
        &mut self,
        console: &str,
        records: &str,
        socket: &Socket,
        is_resting: impl Fn() -> bool,
    ) -> io::Result<libc::pid_t> {
        if !self.is_copy {
            self.replacements = replacements(Path::new(console), Path::new(records), socket.number())?;
            // The kernel takes milliseconds to say how each is kept.
            let maps = fs::read_to_string("/proc/self/maps")?;
            if maps != self.copied {
                copy_all_memory()?;
                self.copied = maps;
            }
            // Copies that end are nobody's to wait for.
            // SAFETY: no handler.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        }
        let Functions { is_locked, lock, unlock, .. } = self.functions;
        // SAFETY: may be asked on any thread of QEMU's.
        let was_locked = unsafe { is_locked() };
        // Whatever QEMU's other threads are in the middle of, the copy would be in it for ever. With the lock held the main
        // thread is in nothing where it waits for descriptors, nor is the timekeeper of a copy.
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
        // SAFETY: fork(2) copies this thread, which goes on in both. The C library keeps its allocator whole in the copy.
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

    /// What `work` finds in a copy that ends with it. None: it found nothing, or ended otherwise, or has not ended soon.
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

    /// Puts what is the copy's own in the place of what it would share. Returns its event descriptors.
    fn replace(&self) -> io::Result<Vec<RawFd>> {
        let mut events = Vec::new();
        for (descriptor, replacement) in &self.replacements {
            // SAFETY: system calls on descriptors of this process, which own nothing in it that relies on what they lead to;
            // texts end in NUL, and structures live until the calls have returned.
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

/// How often it is looked whether QEMU's main thread rests before there is no copy.
const RESTING_LOOKS: u32 = 100_000;

/// What a copy would share and must not.
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

/// Has memory that QEMU has kept from copies be copied.
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

/// Whether the timekeeper has nothing to do: the run is held.
static TIMEKEEPER_RESTS: AtomicBool = AtomicBool::new(true);

/// The thread, to be woken; of the process that it was started in.
static TIMEKEEPER: OnceLock<std::sync::Mutex<Option<Thread>>> = OnceLock::new();

/// Says whether the run executes: then a copy's timekeeper works.
pub(crate) fn executes(is_executing: bool) {
    TIMEKEEPER_RESTS.store(!is_executing, Ordering::SeqCst);
    if is_executing
        && let Some(thread) =
            TIMEKEEPER.get().and_then(|thread| thread.lock().ok()).as_deref().and_then(Option::as_ref)
    {
        thread.unpark();
    }
}

/// What a copy has of QEMU's main thread.
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

    /// Waits until a thread wants QEMU's main thread to look.
    fn wait(&self) {
        let poll = |&fd: &RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut polls: Vec<libc::pollfd> = self.events.iter().map(poll).collect();
        // SAFETY: as many as there are.
        unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, GLANCE_MS) };
        for poll in polls.iter().filter(|poll| poll.revents & libc::POLLIN != 0) {
            let mut count = [0u8; 8];
            // SAFETY: eight bytes, as such a descriptor has; it does not block.
            unsafe { libc::read(poll.fd, count.as_mut_ptr().cast(), count.len()) };
        }
    }
}
