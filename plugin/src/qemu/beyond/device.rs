// SPDX-License-Identifier: GPL-2.0-or-later
//! A chip's memory, registers, timers and interrupts, added to QEMU's machine once it is made.
//!
//! The machine only provides the processor: everything below the processor's own registers (0xe0000000) is covered by
//! a region that faults, and the chip's memory and register blocks are laid over that. A RISC-V processor has none of its own
//! registers there ([`csr`]), and no interrupts of the chip's. [`device`] defines the
//! registers' behaviour; this file makes the calls of QEMU. A chip that is an addition (AVR) covers nothing: its registers
//! are laid over single bytes of the machine's own. QEMU makes callbacks with its big lock held, in the
//! vCPU's thread, or in the main thread for timers and the console. All time is `QEMU_CLOCK_VIRTUAL`, which counts
//! instructions.
//!
//! | of QEMU | what for |
//! |---|---|
//! | `memory_region_…`, `object_property_get_link` | memory and registers in the processor's address space |
//! | `timer_…`, `qemu_clock_get_ns` | events that are due later |
//! | `object_…`, `qdev_get_gpio_in_named`, `qemu_set_irq`, `qemu_allocate_irq` | interrupts |
//! | `object_property_find` | where NVIC keeps the number of its lines and of their priority bits, see [`Nvic`] |
//! | `clock_set`, `clock_propagate` | the clock of SysTick, see [`root_clock`] |
//! | `qemu_chr_…` | the console |
//! | `bql_…` | interrupts that an AVR has taken, of which a callback of the plugin's tells the devices |

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use device::{Device, Host};
use rustc_hash::FxHashMap;
use wire::can::Frame;
use wire::chip::{Chip, block_region, memory_region};
use wire::trick::DEVICES;

use super::lock::BigLock;
use super::{csr, is_on, symbol};

/// End of the memory and registers of a chip with an Arm processor; addresses from here on are the processor's.
const END: u64 = 0xe000_0000;

/// Priority of the covering region, above all regions of a base machine.
const COVER_PRIORITY: c_int = 1000;
const CHIP_PRIORITY: c_int = 1001;

/// Bytes for one of QEMU's structures (MemoryRegion, QEMUTimer, CharBackend), more than any of them needs. The
/// structures are never freed.
const ROOM_BYTES: usize = 8192;

/// A multiple of QEMU's page of any Cortex-M, which is 1024 bytes or more.
const PAGE_BYTES: u64 = 4096;

/// Interrupts before the first line: the processor's own exceptions (hw/intc/armv7m_nvic.c, `NVIC_FIRST_IRQ`).
const FIRST_IRQ: u64 = 16;

/// Bytes that can be typed ahead.
const INPUT_BYTES: c_int = 64;

const QEMU_CLOCK_VIRTUAL: c_int = 1;
const DECODE_ERROR: u32 = 2;
const LITTLE_ENDIAN: c_int = 2;

/// An object of QEMU's, only used behind a pointer.
type Object = *mut c_void;
type Error = *mut *mut c_void;
/// `MemTxAttrs`: a bit field, passed by value and not used.
type Attributes = u64;

type ReadRegion = extern "C" fn(*mut c_void, u64, *mut u64, u32, Attributes) -> u32;
type WriteRegion = extern "C" fn(*mut c_void, u64, u64, u32, Attributes) -> u32;

/// `MemoryRegionOps` (include/exec/memory.h).
#[repr(C)]
struct Operations {
    read: *const c_void,
    write: *const c_void,
    read_with_attributes: ReadRegion,
    write_with_attributes: WriteRegion,
    endianness: c_int,
    valid: Valid,
    implemented: Implemented,
}

#[repr(C)]
struct Valid {
    least_bytes: u32,
    most_bytes: u32,
    unaligned: bool,
    accepts: *const c_void,
}

#[repr(C)]
struct Implemented {
    least_bytes: u32,
    most_bytes: u32,
    unaligned: bool,
}

// SAFETY: functions and numbers, which never change.
unsafe impl Sync for Operations {}

const fn operations(read: ReadRegion, write: WriteRegion) -> Operations {
    Operations {
        read: null(),
        write: null(),
        read_with_attributes: read,
        write_with_attributes: write,
        endianness: LITTLE_ENDIAN,
        valid: Valid { least_bytes: 1, most_bytes: 4, unaligned: false, accepts: null() },
        implemented: Implemented { least_bytes: 1, most_bytes: 4, unaligned: false },
    }
}

static NOTHING: Operations = operations(read_nothing, write_nothing);
static REGISTERS: Operations = operations(read_registers, write_registers);
static FLASH: Operations = operations(read_flash, write_flash);
/// Each byte is an access of its own.
static BYTES: Operations = Operations {
    implemented: Implemented { least_bytes: 1, most_bytes: 1, unaligned: false },
    ..operations(read_byte, write_byte)
};

/// Declares the functions of QEMU's used here, each looked up by its name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        #[derive(Clone, Copy)]
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Functions {
            /// Looks up all functions. The error is the name of the first one missing.
            fn find() -> Result<Functions, &'static str> {
                $(
                    let $name = concat!(stringify!($name), "\0");
                    let $name = CStr::from_bytes_with_nul($name.as_bytes()).ok().and_then(|name| symbol(&DEVICES, name));
                    let $name = $name.ok_or(stringify!($name))?;
                )*
                // SAFETY: in the releases of the table's row the functions of these names have these types; the program
                // itself exports them and stays loaded.
                unsafe {
                    Ok(Functions {
                        $($name: mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $result)?
                        >($name),)*
                    })
                }
            }
        }
    };
}

functions! {
    qemu_add_machine_init_done_notifier: fn(*mut Notifier);
    object_get_root: fn() -> Object;
    object_child_foreach_recursive: fn(Object, extern "C" fn(Object, *mut c_void) -> c_int, *mut c_void) -> c_int;
    object_dynamic_cast: fn(Object, *const c_char) -> Object;
    object_property_get_link: fn(Object, *const c_char, Error) -> Object;
    object_property_find: fn(Object, *const c_char) -> *const ObjectProperty;
    memory_region_init_ram: fn(*mut c_void, Object, *const c_char, u64, Error) -> bool;
    memory_region_init_rom_device: fn(*mut c_void, Object, *const Operations, *mut c_void, *const c_char, u64, Error) -> bool;
    memory_region_init_alias: fn(*mut c_void, Object, *const c_char, *mut c_void, u64, u64);
    memory_region_init_io: fn(*mut c_void, Object, *const Operations, *mut c_void, *const c_char, u64);
    memory_region_add_subregion_overlap: fn(*mut c_void, u64, *mut c_void, c_int);
    memory_region_get_ram_ptr: fn(*mut c_void) -> *mut u8;
    memory_region_flush_rom_device: fn(*mut c_void, u64, u64);
    timer_init_full: fn(*mut c_void, *mut c_void, c_int, c_int, c_int, extern "C" fn(*mut c_void), *mut c_void);
    timer_mod_ns: fn(*mut c_void, i64);
    timer_del: fn(*mut c_void);
    qemu_clock_get_ns: fn(c_int) -> i64;
    qdev_get_gpio_in_named: fn(Object, *const c_char, c_int) -> *mut Irq;
    qemu_set_irq: fn(*mut Irq, c_int);
    qemu_allocate_irq: fn(*const c_void, *mut c_void, c_int) -> *mut Irq;
    clock_set: fn(*mut Clock, u64) -> bool;
    clock_propagate: fn(*mut Clock);
    qemu_chr_find: fn(*const c_char) -> *mut c_void;
    qemu_chr_fe_init: fn(*mut c_void, *mut c_void, Error) -> bool;
    qemu_chr_fe_set_handlers: fn(
        *mut c_void,
        extern "C" fn(*mut c_void) -> c_int,
        extern "C" fn(*mut c_void, *const u8, c_int),
        *const c_void,
        *const c_void,
        *mut c_void,
        *mut c_void,
        bool
    );
    qemu_chr_fe_write_all: fn(*mut c_void, *const u8, c_int) -> c_int;
}

/// `Notifier` (include/qemu/notify.h).
#[repr(C)]
struct Notifier {
    notify: extern "C" fn(*mut Notifier, *mut c_void),
    link: [*mut c_void; 2],
}

/// `Object` (include/qom/object.h), the beginning of other structures.
#[repr(C)]
struct ObjectHead {
    _words: [usize; 5],
}

/// `ObjectProperty` (include/qom/object.h), up to the last field needed.
#[repr(C)]
struct ObjectProperty {
    _names_and_functions: [usize; 8],
    /// Description, if the property is a device's.
    description: *const Property,
}

/// `Property` (include/hw/qdev-properties.h), up to the last field needed.
#[repr(C)]
struct Property {
    name: *const c_char,
    _info: *const c_void,
    offset: isize,
}

/// `IRQState` (include/hw/irq.h).
#[repr(C)]
struct Irq {
    _head: ObjectHead,
    handler: *const c_void,
    opaque: *mut c_void,
    line: c_int,
}

/// `Clock` (include/hw/clock.h), up to the last field needed.
#[repr(C)]
struct Clock {
    _head: ObjectHead,
    _period: u64,
    _path: *const c_char,
    _callback: [*const c_void; 2],
    _events: u32,
    _multiplier: u32,
    _divider: u32,
    source: *mut Clock,
}

/// Reason why the machine cannot be completed.
pub(crate) type Missing = String;

/// An event of a chip that is reported to harness.
#[derive(Clone, Copy)]
pub(crate) enum ChipEvent {
    /// A watchdog, by its address, has run out.
    Bite { watchdog: u64 },
    /// An interrupt has come by itself, by its number among the rules.
    Pulse { rule: usize },
    /// A pin of a port, by the address of its registers, has changed its level.
    Pin { port: u64, pin: u32, is_high: bool, is_output: bool },
    /// A change from outside has come at its time.
    Came,
    /// A frame was on the bus of a CAN controller, by the address of its registers.
    Frame { port: u64, is_sent: bool, frame: Frame },
    /// An instruction has accessed a register that the chip file does not describe.
    Undescribed { address: u64, pc: u64, is_write: bool },
    /// The firmware has accessed an address at which the chip has nothing.
    Absent { address: u64, is_write: bool },
}

/// Receiver of a chip's events.
type Tell = Box<dyn Fn(ChipEvent) + Send>;

/// A chip that waits for its machine, with its callbacks for failure and for watchdogs.
struct Wanted {
    chip: Chip,
    functions: Functions,
    refuse: Box<dyn FnOnce(&str) + Send>,
    tell: Tell,
}

/// The completed machine: the chip's devices, and QEMU's objects.
struct Completed {
    device: Device,
    machine: Machine,
}

/// QEMU's side of the chip's devices.
struct Machine {
    functions: Functions,
    timer: *mut c_void,
    memories: Vec<Mapped>,
    lines: Vec<*mut Irq>,
    cpu_clock: *mut Clock,
    systick_clock: *mut Clock,
    console: *mut c_void,
    /// Time to which the timer is set, so that it is not set twice.
    due_ns: Option<u64>,
    /// Called at each event.
    tell: Tell,
    /// Base addresses of the register blocks.
    starts: Vec<u64>,
    /// Lines that an instruction has raised within its block, where QEMU takes no interrupt ([`AT`]).
    raised_later: Vec<u32>,
    /// Blocks and offsets of the registers in AVR's data space, by address.
    bytes: FxHashMap<u64, (usize, u64)>,
}

/// A chip's memory.
struct Mapped {
    region: *mut c_void,
    start: u64,
    bytes: u64,
    host: *mut u8,
}

// SAFETY: the pointers are to QEMU's objects, which live for ever and are used with QEMU's big lock held.
unsafe impl Send for Machine {}

static COMPLETED: OnceLock<Mutex<Completed>> = OnceLock::new();

/// QEMU's big lock, for a chip that is told of the interrupts that are taken, or of the input.
static LOCK: OnceLock<BigLock> = OnceLock::new();

/// The chip, until the machine is made.
static WANTED: Mutex<Option<Wanted>> = Mutex::new(None);

thread_local! {
    /// Time in ns at the instruction that this thread executes, where QEMU's own clock cannot be read; None: it can be.
    ///
    /// QEMU's AVR executes `in` and `out` within a block, while its clock already has all of the block's instructions. Other
    /// threads, which handle timers and input, read QEMU's clock meanwhile.
    static AT: Cell<Option<u64>> = const { Cell::new(None) };

    /// Address of the instruction that this thread executes, and the bits that it writes of a register's byte: AVR's `sbi` and
    /// `cbi` write one.
    static ACCESS: Cell<(u64, u8)> = const { Cell::new((0, u8::MAX)) };
}

/// Sets time, address and written bits of an instruction that accesses a register of AVR's. The time is that of the instructions so
/// far, each of 2^shift ns; None: QEMU's clock has it.
pub(crate) fn set_access(ns: Option<u64>, pc: u64, bits: u8) {
    AT.set(ns);
    ACCESS.set((pc, bits));
}

/// Does something at a time in ns; then this thread has the time that it had before.
pub(in crate::qemu) fn at_time<T>(ns: Option<u64>, what: impl FnOnce() -> T) -> T {
    let before = AT.replace(ns);
    let done = what();
    AT.set(before);
    done
}

/// Tells the chip's devices that the processor has taken the interrupt of a line, after this time.
pub(crate) fn take_interrupt(line: u32, ns: u64) {
    let Some(lock) = LOCK.get() else { return };
    lock.hold(|| {
        at_time(Some(ns), || with(|device, machine| device.take(line, machine)));
    });
}

/// Tells the chip's devices that the processor has fed its watchdog, at this time.
pub(crate) fn feed_watchdog(ns: u64) {
    let Some(lock) = LOCK.get() else { return };
    lock.hold(|| {
        at_time(Some(ns), || with(|device, machine| device.feed_watchdogs(machine)));
    });
}

/// Tells the chip's devices that a step of the input has begun. Its changes come between two blocks, where QEMU's clock can be
/// read: at the end of the block that executes.
pub(crate) fn begin_step(step: u32) {
    let Some(lock) = LOCK.get() else { return };
    lock.hold(|| with(|device, machine| device.begin_step(step, machine)));
}

/// Address + 1 of the last access that the chip does not model, until it is taken; bit 63: it was a write.
static UNMODELLED: AtomicU64 = AtomicU64::new(0);
const IS_WRITE: u64 = 1 << 63;

/// Takes the last access, if the chip does not model it: its address, and whether it was a write.
pub(crate) fn take_unmodelled() -> Option<(u64, bool)> {
    if UNMODELLED.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let access = UNMODELLED.swap(0, Ordering::Relaxed);
    Some(((access & !IS_WRITE) - 1, access & IS_WRITE != 0))
}

/// Number + 1 of the answer that the last read got, until it is taken.
static ANSWER: AtomicU64 = AtomicU64::new(0);

/// Takes the number of the answer that the last read got.
pub(crate) fn take_answer() -> Option<u64> {
    if ANSWER.load(Ordering::Relaxed) == 0 {
        return None;
    }
    ANSWER.swap(0, Ordering::Relaxed).checked_sub(1)
}

/// Completes the machine to a chip as soon as QEMU has made it. `refuse` is called if that fails, `bites` if a
/// watchdog has run out, with its address.
///
/// # Errors
/// The name of the function that this QEMU lacks.
pub(crate) fn complete(chip: Chip, refuse: impl FnOnce(&str) + Send + 'static, tell: Tell) -> Result<(), Missing> {
    if !is_on(&DEVICES) {
        return Err("devices that the plugin may use (docs/qemu.md)".to_owned());
    }
    let functions = Functions::find()?;
    if chip.is_addition || chip.stimuli.iter().any(|stimulus| stimulus.step.is_some()) {
        let _ = LOCK.set(BigLock::find(&DEVICES).ok_or("bql_lock_impl")?);
    }
    let wanted = Wanted { chip, functions, refuse: Box::new(refuse), tell };
    *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
    let notifier = Notifier { notify: machine_is_made, link: [null_mut(); 2] };
    // SAFETY: see `Functions::find`; the notifier lives for ever.
    unsafe { (functions.qemu_add_machine_init_done_notifier)(Box::leak(Box::new(notifier))) };
    Ok(())
}

extern "C" fn machine_is_made(_: *mut Notifier, _: *mut c_void) {
    let Some(wanted) = WANTED.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let Wanted { chip, functions, refuse, tell } = wanted;
    match Machine::make(&chip, functions, tell) {
        Err(missing) => {
            refuse(&missing);
            crate::qemu::exit(1);
        }
        Ok(machine) => {
            let mut completed = Completed { device: Device::new(chip), machine };
            completed.device.begin(&mut completed.machine);
            let _ = COMPLETED.set(Mutex::new(completed));
        }
    }
}

/// Memory for a structure of QEMU's, aligned as any of them.
#[repr(align(64))]
struct Room {
    _bytes: [u8; ROOM_BYTES],
}

/// Zeroed [`Room`], never freed.
fn room() -> *mut c_void {
    (&raw mut *Box::leak(Box::new(Room { _bytes: [0; ROOM_BYTES] }))).cast()
}

fn name(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// All objects of a kind, in QEMU's order.
fn objects(functions: &Functions, kind: &CStr) -> Vec<Object> {
    struct Search<'a> {
        functions: &'a Functions,
        kind: &'a CStr,
        found: Vec<Object>,
    }
    extern "C" fn visit(object: Object, search: *mut c_void) -> c_int {
        // SAFETY: the search below, which outlives the walk; the object is one of QEMU's tree.
        unsafe {
            let search = &mut *search.cast::<Search<'_>>();
            if !(search.functions.object_dynamic_cast)(object, search.kind.as_ptr()).is_null() {
                search.found.push(object);
            }
        }
        0
    }
    let mut search = Search { functions, kind, found: Vec::new() };
    // SAFETY: the tree of all objects, which the visitor leaves as it is.
    unsafe {
        let root = (functions.object_get_root)();
        (functions.object_child_foreach_recursive)(root, visit, (&raw mut search).cast());
    }
    search.found
}

impl Machine {
    fn make(chip: &Chip, functions: Functions, tell: Tell) -> Result<Machine, Missing> {
        let kind = match chip.riscv {
            Some(_) => c"riscv-cpu",
            None if chip.is_addition => c"avr-cpu",
            None => c"armv7m",
        };
        let processor = objects(&functions, kind).first().copied().ok_or("the chip's processor")?;
        // SAFETY: the processor's property of that name, a link to its memory.
        let container = unsafe { (functions.object_property_get_link)(processor, c"memory".as_ptr(), null_mut()) };
        if container.is_null() {
            return Err("a memory that its processor sees".to_owned());
        }
        let memories = map(chip, &functions, container)?;
        let mut machine = Machine {
            functions,
            timer: room(),
            memories,
            lines: Vec::new(),
            cpu_clock: null_mut(),
            systick_clock: null_mut(),
            console: null_mut(),
            due_ns: None,
            tell,
            starts: chip.blocks.iter().map(|block| block.start).collect(),
            raised_later: Vec::new(),
            bytes: registers_by_byte(chip),
        };
        // SAFETY: memory for a timer, on the clock of the instructions, in nanoseconds.
        unsafe {
            (functions.timer_init_full)(
                machine.timer,
                null_mut(),
                QEMU_CLOCK_VIRTUAL,
                1,
                0,
                timer_is_due,
                null_mut(),
            );
        }
        if chip.is_addition {
            // SAFETY: the processor's unnamed inputs are the lines of its interrupts.
            let line = |line: u32| unsafe { (functions.qdev_get_gpio_in_named)(processor, null(), line as c_int) };
            machine.lines = (0..chip.lines).map(line).collect();
            machine.console = console(&functions);
            return Ok(machine);
        }
        if let Some(riscv) = &chip.riscv {
            csr::add(riscv);
            machine.console = console(&functions);
            return Ok(machine);
        }
        machine.lines = interrupts(chip, &functions, processor)?;
        let clocks = objects(&functions, c"clock");
        machine.cpu_clock = root_clock(&functions, &clocks, processor, c"cpuclk");
        machine.systick_clock = root_clock(&functions, &clocks, processor, c"refclk");
        if machine.systick_clock == machine.cpu_clock {
            machine.systick_clock = null_mut();
        }
        machine.console = console(&functions);
        Ok(machine)
    }
}

/// Blocks and offsets of the registers in AVR's data space, by address.
fn registers_by_byte(chip: &Chip) -> FxHashMap<u64, (usize, u64)> {
    let blocks = chip.blocks.iter().zip(0..);
    let bytes = blocks.flat_map(|(block, index)| block.bytes_at.iter().map(move |byte| (byte, index)));
    bytes.map(|(byte, index)| (byte.address, (index, byte.offset))).collect()
}

/// Lays a chip's memory and registers over the machine's.
fn map(chip: &Chip, functions: &Functions, container: *mut c_void) -> Result<Vec<Mapped>, Missing> {
    let add = |region: *mut c_void, start: u64, priority: c_int| {
        // SAFETY: a region that was made just now and is in no other, and QEMU's own container.
        unsafe { (functions.memory_region_add_subregion_overlap)(container, start, region, priority) };
    };
    if chip.is_addition {
        for (block, index) in chip.blocks.iter().zip(0..) {
            for bytes in block.stretches() {
                let start = bytes.start;
                add(stretch(functions, index, bytes), start, CHIP_PRIORITY);
            }
        }
        return Ok(Vec::new());
    }
    let (nothing, end) = (room(), if chip.riscv.is_some() { 1 << 32 } else { END });
    // SAFETY: memory for a region; name and functions live for ever.
    unsafe {
        let name = c"nothing of the chip".as_ptr();
        (functions.memory_region_init_io)(nothing, null_mut(), &raw const NOTHING, null_mut(), name, end);
    }
    add(nothing, 0, COVER_PRIORITY);
    let mut mapped: Vec<Mapped> = Vec::new();
    for (memory, index) in chip.memory.iter().zip(0usize..) {
        let (region, name) = (room(), name(&memory_region(index)));
        // SAFETY: memory for a region, of a size that the host has; the name is copied.
        let is_made = unsafe {
            match memory.alias_of {
                Some(of) => {
                    let of = mapped.get(of as usize).ok_or("a memory that comes before its alias")?;
                    let (of, name) = (of.region, name.as_ptr());
                    (functions.memory_region_init_alias)(region, null_mut(), name, of, 0, memory.bytes);
                    true
                }
                None if memory.is_flash => (functions.memory_region_init_rom_device)(
                    region,
                    null_mut(),
                    &raw const FLASH,
                    index as *mut c_void,
                    name.as_ptr(),
                    memory.bytes,
                    null_mut(),
                ),
                None => {
                    let name = name.as_ptr();
                    (functions.memory_region_init_ram)(region, null_mut(), name, memory.bytes, null_mut())
                }
            }
        };
        if !is_made {
            return Err(format!("room for {} bytes of {}", memory.bytes, memory.name));
        }
        let host = match memory.alias_of {
            Some(of) => mapped[of as usize].host,
            // SAFETY: a region with memory of its own.
            None => unsafe { (functions.memory_region_get_ram_ptr)(region) },
        };
        if memory.is_flash && memory.alias_of.is_none() {
            // SAFETY: as many bytes as the region has.
            unsafe { host.write_bytes(0xff, memory.bytes as usize) };
        }
        for word in &memory.words {
            // SAFETY: within the memory (`wire::chip` has checked that).
            unsafe { host.add(word.offset as usize).copy_from_nonoverlapping(word.value.to_le_bytes().as_ptr(), 4) };
        }
        add(region, memory.start, CHIP_PRIORITY);
        mapped.push(Mapped { region, start: memory.start, bytes: memory.bytes, host });
    }
    for (block, index) in chip.blocks.iter().zip(0usize..) {
        let (whole, region, name) = (room(), room(), name(&block_region(index)));
        let lead = lead_bytes(block.start);
        // SAFETY: memory for two regions; the name is copied.
        unsafe {
            let (operations, name) = (&raw const REGISTERS, name.as_ptr());
            let bytes = lead + block.bytes;
            (functions.memory_region_init_io)(whole, null_mut(), operations, index as *mut c_void, name, bytes);
            (functions.memory_region_init_alias)(region, null_mut(), name, whole, lead, block.bytes);
        }
        add(region, block.start, CHIP_PRIORITY);
    }
    Ok(mapped)
}

/// A region of bytes of the data space that are registers of a block. Its opaque value is the first one's address.
fn stretch(functions: &Functions, block: usize, bytes: Range<u64>) -> *mut c_void {
    let (whole, region, name) = (room(), room(), name(&block_region(block)));
    let (lead, count) = (lead_bytes(bytes.start), bytes.end - bytes.start);
    // SAFETY: memory for two regions; the name is copied.
    unsafe {
        let (operations, name, opaque) = (&raw const BYTES, name.as_ptr(), bytes.start as *mut c_void);
        (functions.memory_region_init_io)(whole, null_mut(), operations, opaque, name, lead + count);
        (functions.memory_region_init_alias)(region, null_mut(), name, whole, lead, count);
    }
    region
}

/// Bytes from the page in which a block begins to its start.
///
/// QEMU keeps a page's offset in its region beside the region's number (`tlb_set_page_full`), so the offset must be a
/// multiple of the page. A block is a window of a region that begins with its page.
fn lead_bytes(start: u64) -> u64 {
    start % PAGE_BYTES
}

/// The interrupt controller of a Cortex-M. The number of its lines, and the number of their priority bits, are two
/// fields that the board has set. Its tables have room for all lines that an Armv7-M may have.
struct Nvic<'a> {
    functions: &'a Functions,
    object: Object,
}

impl Nvic<'_> {
    /// Address of the field of a numeric property. The caller checks its value for plausibility.
    fn place(&self, property: &CStr) -> Option<*mut c_void> {
        // SAFETY: the last member of a device's property leads to its description, which has the field's offset in
        // the object.
        unsafe {
            let found = (self.functions.object_property_find)(self.object, property.as_ptr()).as_ref()?;
            let description = found.description.as_ref()?;
            let is_it = !description.name.is_null() && CStr::from_ptr(description.name) == property;
            is_it.then(|| self.object.byte_offset(description.offset))
        }
    }
}

/// The interrupt lines, extended to the number that the chip has.
fn interrupts(chip: &Chip, functions: &Functions, processor: Object) -> Result<Vec<*mut Irq>, Missing> {
    let nvic = objects(functions, c"armv7m_nvic").first().copied().ok_or("an interrupt controller")?;
    let nvic = Nvic { functions, object: nvic };
    let lines = nvic.place(c"num-irq").ok_or("the number of interrupt lines")?.cast::<u32>();
    // SAFETY: see `Nvic::place`.
    let had = u64::from(unsafe { *lines });
    if !(FIRST_IRQ + 1..=FIRST_IRQ + u64::from(wire::chip::MAX_LINES)).contains(&had) {
        return Err("the number of interrupt lines".to_owned());
    }
    let had = (had - FIRST_IRQ) as u32;
    // SAFETY: the processor's unnamed inputs are those lines.
    let line = |line: u32| unsafe { (functions.qdev_get_gpio_in_named)(processor, null(), line as c_int) };
    let mut all: Vec<*mut Irq> = (0..had).map(line).collect();
    let last = all.last().copied().ok_or("an interrupt line")?;
    // SAFETY: the lines are QEMU's, and live as long as the processor.
    let (handler, opaque) = unsafe {
        if (*last).opaque != nvic.object || (*last).line != had as c_int - 1 {
            return Err("interrupt lines that lead to the controller".to_owned());
        }
        ((*last).handler, (*last).opaque)
    };
    if chip.lines > had {
        for line in had..chip.lines {
            // SAFETY: as the lines before it, of the same handler, which takes lines up to the number that is set next.
            all.push(unsafe { (functions.qemu_allocate_irq)(handler, opaque, line as c_int) });
        }
        // SAFETY: see `Nvic::place`; the number was there, and the tables have room.
        unsafe { *lines = chip.lines + FIRST_IRQ as u32 };
    }
    if chip.priority_bits > 0 {
        let bits = nvic.place(c"num-prio-bits").ok_or("the number of priority bits")?.cast::<u8>();
        // SAFETY: see `Nvic::place`.
        unsafe {
            if !(2..=8).contains(&*bits) {
                return Err("the number of priority bits".to_owned());
            }
            *bits = chip.priority_bits as u8;
        }
    }
    Ok(all)
}

/// The clock from which a processor's input is derived, and which may be set. Null: no such clock was recognised.
fn root_clock(functions: &Functions, clocks: &[Object], processor: Object, input: &CStr) -> *mut Clock {
    // A device's clocks are its children, found by name.
    // SAFETY: a property of the processor, or none.
    let mut clock = unsafe { (functions.object_property_get_link)(processor, input.as_ptr(), null_mut()) };
    for _ in 0..clocks.len() {
        if !clocks.contains(&clock) {
            return null_mut();
        }
        // SAFETY: a clock of QEMU's.
        let source = unsafe { (*clock.cast::<Clock>()).source };
        if source.is_null() {
            return clock.cast();
        }
        clock = source.cast();
    }
    null_mut()
}

/// Opens a front end of the console; null: there is no console.
fn console(functions: &Functions) -> *mut c_void {
    let console = room();
    // SAFETY: the console's name is fixed; memory for a front end, whose functions live for ever.
    unsafe {
        let back = (functions.qemu_chr_find)(c"console".as_ptr());
        if back.is_null() || !(functions.qemu_chr_fe_init)(console, back, null_mut()) {
            return null_mut();
        }
        (functions.qemu_chr_fe_set_handlers)(
            console,
            can_receive,
            receive,
            null(),
            null(),
            null_mut(),
            null_mut(),
            true,
        );
    }
    console
}

impl Host for Machine {
    fn now_ns(&mut self) -> u64 {
        if let Some(ns) = AT.get() {
            return ns;
        }
        // SAFETY: QEMU's big lock is held, in an access that ends its block, or in the main thread.
        unsafe { (self.functions.qemu_clock_get_ns)(QEMU_CLOCK_VIRTUAL) }.max(0).cast_unsigned()
    }

    fn set_line(&mut self, line: u32, is_raised: bool) {
        self.raised_later.retain(|&other| other != line);
        if is_raised && AT.get().is_some() {
            self.raised_later.push(line);
            return;
        }
        if let Some(&line) = self.lines.get(line as usize) {
            // SAFETY: a line of the processor's.
            unsafe { (self.functions.qemu_set_irq)(line, is_raised.into()) };
        }
    }

    fn wake_at(&mut self, ns: Option<u64>) {
        // Where the next call comes at once anyway, the time need not be known.
        let ns = if self.raised_later.is_empty() || ns == Some(0) { ns } else { Some(self.now_ns()) };
        if self.due_ns == ns {
            return;
        }
        self.due_ns = ns;
        // SAFETY: the timer was made with the machine.
        unsafe {
            match ns.and_then(|ns| i64::try_from(ns).ok()) {
                Some(ns) => (self.functions.timer_mod_ns)(self.timer, ns),
                None => (self.functions.timer_del)(self.timer),
            }
        }
    }

    fn print(&mut self, byte: u8) {
        if !self.console.is_null() {
            // SAFETY: a front end, and one byte.
            unsafe { (self.functions.qemu_chr_fe_write_all)(self.console, &raw const byte, 1) };
        }
    }

    fn read_memory(&mut self, address: u64, to: &mut [u8]) -> bool {
        let Some(from) = self.host(address, to.len()) else { return false };
        // SAFETY: as many bytes are there; nothing executes meanwhile.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from, to.len()) };
        true
    }

    fn write_memory(&mut self, address: u64, from: &[u8]) -> bool {
        let Some(to) = self.host(address, from.len()) else { return false };
        // SAFETY: as above.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        true
    }

    fn program(&mut self, memory: u32, offset: u64, bytes: &[u8]) {
        self.change_flash(memory, offset, bytes.len() as u64, |index, old| old & bytes[index]);
    }

    fn erase(&mut self, memory: u32, offset: u64, bytes: u64) {
        self.change_flash(memory, offset, bytes, |_, _| 0xff);
    }

    fn set_cpu_clock(&mut self, hz: u64) {
        self.set_clock(self.cpu_clock, hz);
    }

    fn set_systick_clock(&mut self, hz: u64) {
        self.set_clock(self.systick_clock, hz);
    }

    fn pulsed(&mut self, rule: usize) {
        (self.tell)(ChipEvent::Pulse { rule });
    }

    fn pin(&mut self, block: usize, pin: u32, is_high: bool, is_output: bool) {
        if let Some(&port) = self.starts.get(block) {
            (self.tell)(ChipEvent::Pin { port, pin, is_high, is_output });
        }
    }

    fn came(&mut self) {
        (self.tell)(ChipEvent::Came);
    }

    fn frame(&mut self, block: usize, &frame: &Frame, is_sent: bool) {
        if let Some(&port) = self.starts.get(block) {
            (self.tell)(ChipEvent::Frame { port, is_sent, frame });
        }
    }

    fn bite(&mut self, block: u32) {
        if let Some(&start) = self.starts.get(block as usize) {
            (self.tell)(ChipEvent::Bite { watchdog: start });
        }
    }
}

impl Machine {
    /// Host address of a range of the chip's memory.
    fn host(&self, address: u64, bytes: usize) -> Option<*mut u8> {
        let end = address.checked_add(bytes as u64)?;
        let memory =
            self.memories.iter().find(|memory| memory.start <= address && end <= memory.start + memory.bytes)?;
        // SAFETY: within the memory.
        Some(unsafe { memory.host.add((address - memory.start) as usize) })
    }

    /// Changes bytes of flash, and discards code translated from them.
    fn change_flash(&mut self, memory: u32, offset: u64, bytes: u64, change: impl Fn(usize, u8) -> u8) {
        let Some(memory) = self.memories.get(memory as usize) else { return };
        if offset.checked_add(bytes).is_none_or(|end| end > memory.bytes) {
            return;
        }
        for index in 0..bytes as usize {
            // SAFETY: within the memory; nothing executes meanwhile.
            unsafe {
                let byte = memory.host.add(offset as usize + index);
                *byte = change(index, *byte);
            }
        }
        // SAFETY: a region with functions and memory; the range is within it.
        unsafe { (self.functions.memory_region_flush_rom_device)(memory.region, offset, bytes) };
    }

    /// Block and offset of a register in AVR's data space, in a stretch of registers that begins at an address.
    fn register_at(&self, at: (*mut c_void, u64)) -> Option<(usize, u64)> {
        self.bytes.get(&byte_address(at)).copied()
    }

    /// Tells of an access of a register of AVR's that the chip file does not describe. Here the instruction is known.
    fn tell_undescribed(&self, device: &Device, block: usize, at: (*mut c_void, u64), is_write: bool) {
        if device.chip().blocks[block].is_undescribed {
            let address = byte_address(at);
            (self.tell)(ChipEvent::Undescribed { address, pc: ACCESS.get().0, is_write });
        }
    }

    fn set_clock(&self, clock: *mut Clock, hz: u64) {
        // A clock's period is in 2^-32 ns (include/hw/clock.h, CLOCK_PERIOD_1SEC).
        if let (false, Some(period)) = (clock.is_null(), (1_000_000_000u64 << 32).checked_div(hz)) {
            // SAFETY: a clock that is derived from no other.
            unsafe {
                if (self.functions.clock_set)(clock, period) {
                    (self.functions.clock_propagate)(clock);
                }
            }
        }
    }
}

fn with(work: impl FnOnce(&mut Device, &mut Machine)) {
    if let Some(completed) = COMPLETED.get() {
        let mut completed = completed.lock().unwrap_or_else(PoisonError::into_inner);
        let Completed { device, machine } = &mut *completed;
        work(device, machine);
    }
}

extern "C" fn read_nothing(_: *mut c_void, address: u64, _: *mut u64, _: u32, _: Attributes) -> u32 {
    with(|_, machine| (machine.tell)(ChipEvent::Absent { address, is_write: false }));
    DECODE_ERROR
}

extern "C" fn write_nothing(_: *mut c_void, address: u64, _: u64, _: u32, _: Attributes) -> u32 {
    with(|_, machine| (machine.tell)(ChipEvent::Absent { address, is_write: true }));
    DECODE_ERROR
}

extern "C" fn read_registers(block: *mut c_void, offset: u64, value: *mut u64, bytes: u32, _: Attributes) -> u32 {
    with(|device, machine| {
        let offset = offset - lead_bytes(device.chip().blocks[block as usize].start);
        let access = device.read(block as usize, offset, bytes, machine);
        if !access.is_modelled {
            note(device, block as usize, offset, 0);
        }
        if let Some(answer) = access.answer {
            ANSWER.store(answer as u64 + 1, Ordering::Relaxed);
        }
        // SAFETY: QEMU's room for the value.
        unsafe { *value = access.value.into() };
    });
    0
}

extern "C" fn write_registers(block: *mut c_void, offset: u64, value: u64, bytes: u32, _: Attributes) -> u32 {
    with(|device, machine| {
        let offset = offset - lead_bytes(device.chip().blocks[block as usize].start);
        if !device.write(block as usize, offset, bytes, value as u32, machine) {
            note(device, block as usize, offset, IS_WRITE);
        }
    });
    0
}

/// Address of a byte in a stretch of registers that begins at an address, by its offset in the stretch's region.
fn byte_address((stretch, offset): (*mut c_void, u64)) -> u64 {
    let start = stretch as u64;
    start + offset.saturating_sub(lead_bytes(start))
}

extern "C" fn read_byte(stretch: *mut c_void, offset: u64, value: *mut u64, _: u32, _: Attributes) -> u32 {
    with(|device, machine| {
        let at = (stretch, offset);
        let Some((block, offset)) = machine.register_at(at) else { return };
        machine.tell_undescribed(device, block, at, false);
        // SAFETY: QEMU's room for the value.
        unsafe { *value = device.read_byte(block, offset, machine).into() };
    });
    0
}

extern "C" fn write_byte(stretch: *mut c_void, offset: u64, value: u64, _: u32, _: Attributes) -> u32 {
    with(|device, machine| {
        let at = (stretch, offset);
        let Some((block, offset)) = machine.register_at(at) else { return };
        machine.tell_undescribed(device, block, at, true);
        device.write_byte(block, offset, value as u8, ACCESS.get().1, machine);
    });
    0
}

fn note(device: &Device, block: usize, offset: u64, is_write: u64) {
    UNMODELLED.store((device.chip().blocks[block].start + offset + 1) | is_write, Ordering::Relaxed);
}

/// Reads flash while it does not act as memory; otherwise QEMU reads it directly.
extern "C" fn read_flash(memory: *mut c_void, offset: u64, value: *mut u64, bytes: u32, _: Attributes) -> u32 {
    with(|_, machine| {
        let mut word = [0; 8];
        let start = machine.memories[memory as usize].start;
        machine.read_memory(start + offset, &mut word[..bytes.min(8) as usize]);
        // SAFETY: QEMU's room for the value.
        unsafe { *value = u64::from_le_bytes(word) };
    });
    0
}

extern "C" fn write_flash(memory: *mut c_void, offset: u64, value: u64, bytes: u32, _: Attributes) -> u32 {
    with(|device, machine| {
        let word = value.to_le_bytes();
        device.write_flash(memory as usize as u32, offset, &word[..bytes.min(8) as usize], machine);
    });
    0
}

extern "C" fn timer_is_due(_: *mut c_void) {
    // A timer is due between two blocks, where this thread may still have the time of the last one's access.
    AT.set(None);
    with(|device, machine| {
        machine.due_ns = None;
        for line in mem::take(&mut machine.raised_later) {
            machine.set_line(line, true);
        }
        device.wake(machine);
    });
}

extern "C" fn can_receive(_: *mut c_void) -> c_int {
    INPUT_BYTES
}

extern "C" fn receive(_: *mut c_void, bytes: *const u8, count: c_int) {
    // SAFETY: QEMU passes this many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, usize::try_from(count).unwrap_or(0)) };
    with(|device, machine| bytes.iter().for_each(|&byte| device.receive(byte, machine)));
}
