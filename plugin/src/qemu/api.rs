//! QEMU's plugin API (version 4, QEMU >= 9.2) as safe calls; one of the two files with `unsafe`.
//!
//! The `qemu-plugin` crate's own wrappers hook every event, lock a global mutex in each callback,
//! leak a closure per translation and allocate per register read, so this goes to its `sys` layer.
//! Reference: <https://www.qemu.org/docs/master/devel/tcg-plugins.html>.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem;

use qemu_plugin::sys::{self, GArray, GByteArray};

// glib comes with the QEMU binary that loads this library.
unsafe extern "C" {
    fn g_byte_array_new() -> *mut GByteArray;
    fn g_byte_array_set_size(array: *mut GByteArray, length: c_uint) -> *mut GByteArray;
    fn g_array_free(array: *mut GArray, free_segment: bool) -> *mut c_char;
}

// In the API since version 3, but not in the crate.
unsafe extern "C" {
    fn qemu_plugin_request_time_control() -> *const c_void;
    fn qemu_plugin_update_ns(handle: *const c_void, time: i64);
}

/// Called for a block or instruction with the number that was given at registration.
pub(crate) type ExecCallback = fn(vcpu: u32, id: usize);
/// Called after a store: vCPU, guest virtual address, value, number given at registration.
pub(crate) type StoreCallback = fn(vcpu: u32, address: u64, value: u64, id: usize);
/// Called when a block is translated.
pub(crate) type TranslateCallback = fn(block: &Block);
/// Called once per vCPU before it runs.
pub(crate) type VcpuCallback = fn(vcpu: u32);

/// Names a plain function as a type, so that a C trampoline can be made for it at compile time.
pub(crate) trait Hook {
    /// The function.
    const CALL: ExecCallback;
}

extern "C" fn trampoline<H: Hook>(vcpu: c_uint, id: *mut c_void) {
    H::CALL(vcpu, id as usize);
}

/// Names a function called after stores.
pub(crate) trait StoreHook {
    /// The function.
    const CALL: StoreCallback;
}

extern "C" fn store_trampoline<H: StoreHook>(
    vcpu: c_uint,
    info: sys::qemu_plugin_meminfo_t,
    vaddr: u64,
    id: *mut c_void,
) {
    // SAFETY: `info` is the one QEMU passed to this very callback.
    let value = unsafe { sys::qemu_plugin_mem_get_value(info) };
    use sys::qemu_plugin_mem_value_type as Width;
    // SAFETY: the type says which member of the union was written.
    let value = unsafe {
        match value.type_ {
            Width::QEMU_PLUGIN_MEM_VALUE_U8 => u64::from(value.data.u8_),
            Width::QEMU_PLUGIN_MEM_VALUE_U16 => u64::from(value.data.u16_),
            Width::QEMU_PLUGIN_MEM_VALUE_U32 => u64::from(value.data.u32_),
            Width::QEMU_PLUGIN_MEM_VALUE_U64 => value.data.u64_,
            Width::QEMU_PLUGIN_MEM_VALUE_U128 => value.data.u128_.low,
        }
    };
    H::CALL(vcpu, vaddr, value, id as usize);
}

/// Calls `T` for every block that QEMU translates.
pub(crate) fn on_translate<T: TranslateHook>(id: u64) {
    extern "C" fn translated<T: TranslateHook>(_: u64, tb: *mut sys::qemu_plugin_tb) {
        T::CALL(&Block(tb));
    }
    // SAFETY: `id` is the one given to this plugin's installation; the function lives for ever.
    unsafe { sys::qemu_plugin_register_vcpu_tb_trans_cb(id, Some(translated::<T>)) }
}

/// Names the function called at translation.
pub(crate) trait TranslateHook {
    /// The function.
    const CALL: TranslateCallback;
}

/// Names the function called for a new vCPU.
pub(crate) trait VcpuHook {
    /// The function.
    const CALL: VcpuCallback;
}

/// Calls `V` for every vCPU before it runs; the only place where [`Registers::find`] works.
pub(crate) fn on_vcpu_init<V: VcpuHook>(id: u64) {
    extern "C" fn initialised<V: VcpuHook>(_: u64, vcpu: c_uint) {
        V::CALL(vcpu);
    }
    // SAFETY: `id` is the one given to this plugin's installation; the function lives for ever.
    unsafe { sys::qemu_plugin_register_vcpu_init_cb(id, Some(initialised::<V>)) }
}

/// A block being translated; QEMU owns it and it lives as long as the translation callback.
pub(crate) struct Block(*mut sys::qemu_plugin_tb);

/// An instruction of a block being translated.
pub(crate) struct Insn<'a>(*mut sys::qemu_plugin_insn, std::marker::PhantomData<&'a Block>);

impl Block {
    /// Its instructions, in order.
    pub(crate) fn insns(&self) -> impl ExactSizeIterator<Item = Insn<'_>> {
        // SAFETY: the block is valid during the callback that made `self`.
        let count = unsafe { sys::qemu_plugin_tb_n_insns(self.0) };
        (0..count).map(|index| {
            // SAFETY: as above, and `index` is below the count.
            Insn(unsafe { sys::qemu_plugin_tb_get_insn(self.0, index) }, std::marker::PhantomData)
        })
    }

    /// Calls `H` with `id` at the start of each execution.
    pub(crate) fn call<H: Hook>(&self, id: usize) {
        // SAFETY: the block is valid; `id` is only ever read as a number.
        unsafe {
            sys::qemu_plugin_register_vcpu_tb_exec_cb(
                self.0,
                Some(trampoline::<H>),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_R_REGS,
                id as *mut c_void,
            );
        }
    }

    /// Calls `H` with `id` at the start of each execution while the vCPU's cell is at least `least`.
    pub(crate) fn call_when_at_least<H: Hook>(&self, cell: Cell, least: u64, id: usize) {
        // SAFETY: block and cell are valid, see `Cell`; `id` is only ever read as a number.
        unsafe {
            sys::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                self.0,
                Some(trampoline::<H>),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_R_REGS,
                sys::qemu_plugin_cond::QEMU_PLUGIN_COND_GE,
                cell.0,
                least,
                id as *mut c_void,
            );
        }
    }
}

impl Insn<'_> {
    /// Guest virtual address.
    pub(crate) fn pc(&self) -> u64 {
        // SAFETY: the instruction is valid as long as its block.
        unsafe { sys::qemu_plugin_insn_vaddr(self.0) }
    }

    /// Its bytes in memory order and how many of them count (at most four are kept).
    pub(crate) fn bytes(&self) -> ([u8; 4], usize) {
        let mut bytes = [0; 4];
        // SAFETY: the instruction is valid as long as its block; QEMU writes at most `len` bytes.
        let len = unsafe { sys::qemu_plugin_insn_data(self.0, bytes.as_mut_ptr().cast(), bytes.len()) };
        (bytes, len.min(4))
    }

    /// Adds `amount` to the vCPU's cell whenever the instruction starts.
    pub(crate) fn add(&self, cell: Cell, amount: u64) {
        self.inline(sys::qemu_plugin_op::QEMU_PLUGIN_INLINE_ADD_U64, cell, amount);
    }

    /// Stores `value` in the vCPU's cell whenever the instruction starts.
    pub(crate) fn store(&self, cell: Cell, value: u64) {
        self.inline(sys::qemu_plugin_op::QEMU_PLUGIN_INLINE_STORE_U64, cell, value);
    }

    fn inline(&self, op: sys::qemu_plugin_op, cell: Cell, value: u64) {
        // SAFETY: instruction and cell are valid, see `Cell`.
        unsafe { sys::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(self.0, op, cell.0, value) }
    }

    /// Calls `H` with `id` whenever the instruction starts.
    pub(crate) fn call<H: Hook>(&self, id: usize) {
        // SAFETY: the instruction is valid; `id` is only ever read as a number.
        unsafe {
            sys::qemu_plugin_register_vcpu_insn_exec_cb(
                self.0,
                Some(trampoline::<H>),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_R_REGS,
                id as *mut c_void,
            );
        }
    }

    /// Calls `H` with `id` when the instruction starts while the vCPU's cell is at least `least`.
    pub(crate) fn call_when_at_least<H: Hook>(&self, cell: Cell, least: u64, id: usize) {
        // SAFETY: instruction and cell are valid, see `Cell`; `id` is only ever read as a number.
        unsafe {
            sys::qemu_plugin_register_vcpu_insn_exec_cond_cb(
                self.0,
                Some(trampoline::<H>),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_R_REGS,
                sys::qemu_plugin_cond::QEMU_PLUGIN_COND_GE,
                cell.0,
                least,
                id as *mut c_void,
            );
        }
    }

    /// Calls `H` with `id` after each of the instruction's stores.
    pub(crate) fn call_after_store<H: StoreHook>(&self, id: usize) {
        // SAFETY: the instruction is valid; `id` is only ever read as a number.
        unsafe {
            sys::qemu_plugin_register_vcpu_mem_cb(
                self.0,
                Some(store_trampoline::<H>),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_R_REGS,
                sys::qemu_plugin_mem_rw::QEMU_PLUGIN_MEM_W,
                id as *mut c_void,
            );
        }
    }
}

/// A u64 per vCPU that generated code can add to, store to and compare.
#[derive(Clone, Copy)]
pub(crate) struct Cell(sys::qemu_plugin_u64);

/// QEMU's way to reach per-vCPU memory from generated code.
///
/// The generated address is `data + offset + vcpu * element_size` (accel/tcg/plugin-gen.c,
/// `gen_plugin_u64_ptr`, unchanged from 9.0 to 10.1). The scoreboard's own memory is private to QEMU
/// and lost when it aborts, so cells are addressed by an offset that leads from it into our shared
/// mapping, whose vCPU stride equals the element size. QEMU moves `data` only when a vCPU is added,
/// and then flushes every translation, so an offset taken at translation holds for that translation.
pub(crate) struct Scoreboard(*mut sys::qemu_plugin_scoreboard);

// SAFETY: the pointer is only handed back to QEMU, which locks or runs single-threaded as it needs.
unsafe impl Send for Scoreboard {}

impl Scoreboard {
    /// A scoreboard whose vCPUs lie `stride_bytes` apart.
    pub(crate) fn new(stride_bytes: usize) -> Self {
        // SAFETY: no precondition; never freed, it lives as long as the process.
        Scoreboard(unsafe { sys::qemu_plugin_scoreboard_new(stride_bytes) })
    }

    /// The cell at `address` for vCPU 0 and one stride further for each next one. Only valid for
    /// registrations in the translation callback in which it was made.
    pub(crate) fn cell(&self, address: usize) -> Cell {
        // SAFETY: the scoreboard is never freed, and vCPU 0 exists once anything is translated.
        let base = unsafe { sys::qemu_plugin_scoreboard_find(self.0, 0) } as usize;
        Cell(sys::qemu_plugin_u64 { score: self.0, offset: address.wrapping_sub(base) })
    }
}

/// Handles of the guest's registers, and the buffer that QEMU copies guest data into.
pub(crate) struct Registers {
    handles: HashMap<String, *mut sys::qemu_plugin_register>,
    general: Vec<Option<Register>>,
    buffer: *mut GByteArray,
}

// SAFETY: handles are numbers to QEMU; the buffer is only used behind the plugin's one lock.
unsafe impl Send for Registers {}

/// A register's handle, found once by name.
#[derive(Clone, Copy)]
pub(crate) struct Register(*mut sys::qemu_plugin_register);

// SAFETY: the handle is an opaque number that any thread may pass back to QEMU.
unsafe impl Send for Register {}

impl Registers {
    /// Reads the list of registers; must be called from the vCPU-init callback. `general` are the names
    /// of the integer registers by number.
    pub(crate) fn find(general: &[&str]) -> Self {
        let mut handles = HashMap::new();
        // SAFETY: called on a vCPU's thread; the caller owns the array that comes back.
        let array = unsafe { sys::qemu_plugin_get_registers() };
        // SAFETY: a GArray of descriptors, `len` of them, each with a NUL-terminated name.
        unsafe {
            let data = (*array).data.cast::<sys::qemu_plugin_reg_descriptor>();
            for index in 0..(*array).len as usize {
                let descriptor = &*data.add(index);
                let name = CStr::from_ptr(descriptor.name).to_string_lossy().into_owned();
                handles.entry(name).or_insert(descriptor.handle);
            }
            g_array_free(array, true);
        }
        // SAFETY: no precondition; kept for the life of the process.
        let buffer = unsafe { g_byte_array_new() };
        let general = general.iter().map(|&name| handles.get(name).copied().map(Register)).collect();
        Registers { handles, general, buffer }
    }

    /// The first register of that name.
    pub(crate) fn get(&self, name: &str) -> Option<Register> {
        self.handles.get(name).copied().map(Register)
    }

    /// Reads an integer register; only inside callbacks of the vCPU.
    pub(crate) fn read_general(&mut self, number: u8) -> Option<u64> {
        let register = (*self.general.get(usize::from(number))?)?;
        self.read(register)
    }

    /// Reads a register; only inside callbacks of the vCPU. Wider ones are cut to 64 bits.
    pub(crate) fn read(&mut self, register: Register) -> Option<u64> {
        // SAFETY: handle from QEMU, buffer from glib, on the vCPU's thread with registers synced.
        let bytes = unsafe {
            g_byte_array_set_size(self.buffer, 0);
            if sys::qemu_plugin_read_register(register.0, self.buffer) <= 0 {
                return None;
            }
            std::slice::from_raw_parts((*self.buffer).data, (*self.buffer).len as usize)
        };
        let mut value = [0; 8];
        let len = bytes.len().min(8);
        value[..len].copy_from_slice(&bytes[..len]);
        Some(u64::from_le_bytes(value))
    }

    /// Reads guest memory through the vCPU. The read *is* an access: devices notice and may end
    /// QEMU, so callers clip to memory first.
    pub(crate) fn read_memory(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_memory_into(address, len, &mut bytes).then_some(bytes)
    }

    /// Reads a little-endian number of at most eight bytes; see [`Registers::read_memory`].
    pub(crate) fn read_memory_word(&mut self, address: u64, len: usize) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..len)?.copy_from_slice(self.read_guest(address, len)?.get(..len)?);
        Some(u64::from_le_bytes(word))
    }

    /// Reads guest memory into `bytes`, which it replaces; see [`Registers::read_memory`].
    pub(crate) fn read_memory_into(&mut self, address: u64, len: usize, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        self.read_guest(address, len).map(|read| bytes.extend_from_slice(read)).is_some()
    }

    fn read_guest(&mut self, address: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: buffer from glib, on the vCPU's thread; QEMU sizes the buffer itself, and what is borrowed
        // of it ends before the next read.
        unsafe {
            g_byte_array_set_size(self.buffer, 0);
            sys::qemu_plugin_read_memory_vaddr(address, self.buffer, len)
                .then(|| std::slice::from_raw_parts((*self.buffer).data, (*self.buffer).len as usize))
        }
    }
}

/// Reads guest memory outside the plugin's lock: in the handler of QEMU's abort.
pub(crate) fn read_memory_once(address: u64, len: usize) -> Option<Vec<u8>> {
    // SAFETY: no precondition; the process is about to end.
    let buffer = unsafe { g_byte_array_new() };
    Registers { handles: HashMap::new(), general: Vec::new(), buffer }
        .read_memory(address, len)
        .filter(|bytes| bytes.len() == len)
}

/// Ends QEMU here and now, on this instruction: no exit handler runs, nothing more is executed. The
/// records need none (they are shared maps) and the console's file has been written unbuffered.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: no precondition.
    unsafe { libc::_exit(status) }
}

/// Calls `E` when QEMU exits in an orderly way. Guest state cannot be read any more then.
pub(crate) fn on_exit<E: ExitHook>(id: u64) {
    extern "C" fn exiting<E: ExitHook>(_: u64, _: *mut c_void) {
        E::CALL();
    }
    // SAFETY: `id` is the one given to this plugin's installation; the function lives for ever.
    unsafe { sys::qemu_plugin_register_atexit_cb(id, Some(exiting::<E>), std::ptr::null_mut()) }
}

/// Names the function called at QEMU's exit.
pub(crate) trait ExitHook {
    /// The function.
    const CALL: fn();
}

/// Has the kernel kill QEMU when the thread that started it ends, however it ends.
pub(crate) fn die_with_parent() {
    #[cfg(target_os = "linux")]
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// The right to move virtual time, and the lock that whoever moves it holds.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    handle: usize,
    is_locked: extern "C" fn() -> bool,
    lock: extern "C" fn(*const c_char, c_int),
    unlock: extern "C" fn(),
}

impl Clock {
    /// Asks QEMU for it. The lock is none of the plugin API's: a QEMU that can load modules of its own shows it to
    /// them. None: this one does not, or another plugin moves the time.
    pub(crate) fn find() -> Option<Clock> {
        let symbol = |name: &CStr| {
            // SAFETY: looks a name up among the libraries of this process.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        let (is_locked, lock, unlock) = (symbol(c"bql_locked")?, symbol(c"bql_lock_impl")?, symbol(c"bql_unlock")?);
        // SAFETY: no precondition; QEMU is starting, and this is its main thread.
        let handle = unsafe { qemu_plugin_request_time_control() } as usize;
        if handle == 0 {
            return None;
        }
        // SAFETY: these are the types of QEMU's functions of these names (include/qemu/main-loop.h), from 9.0 on.
        unsafe {
            Some(Clock {
                handle,
                is_locked: mem::transmute::<*mut c_void, extern "C" fn() -> bool>(is_locked),
                lock: mem::transmute::<*mut c_void, extern "C" fn(*const c_char, c_int)>(lock),
                unlock: mem::transmute::<*mut c_void, extern "C" fn()>(unlock),
            })
        }
    }

    /// Has QEMU take the calling vCPU to have something to do until it has left the guest's code and its
    /// instructions are accounted for. No thread is any more in the middle of deciding that it has not.
    /// Only inside callbacks of the vCPU.
    pub(crate) fn keep_vcpu_busy(&self) {
        // What there is to do: have the time advance to what it has long passed, which changes nothing.
        // SAFETY: the handle is the one that QEMU gave, and this is a vCPU's thread.
        unsafe { qemu_plugin_update_ns(self.handle as *const c_void, 0) };
        // Who decides holds the lock meanwhile. A device's access locks it at the same place, so nobody who holds
        // it waits for this thread.
        if !(self.is_locked)() {
            (self.lock)(c"profiler plugin".as_ptr(), 0);
            (self.unlock)();
        }
    }
}

/// Has [`interrupt_main_thread`] do no more than its name says.
pub(crate) fn allow_interrupts() {
    extern "C" fn ignore(_: i32) {}
    let handler: extern "C" fn(i32) = ignore;
    // SAFETY: the handler does nothing; QEMU's system emulation leaves this signal alone.
    unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
}

/// Has QEMU's main thread, which waits for file descriptors, look again at which of them it watches.
pub(crate) fn interrupt_main_thread() {
    #[cfg(target_os = "linux")]
    // SAFETY: a signal to a thread of this process, whose handler does nothing; no memory is involved.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::getpid(), libc::SIGUSR2);
    }
}

/// Calls `A` when QEMU aborts (as it does for a Cortex-M lock-up), then lets it abort.
pub(crate) fn on_abort<A: AbortHook>() {
    extern "C" fn aborted<A: AbortHook>(_: i32) {
        // SAFETY: setting the default disposition; a second abort inside the hook then ends QEMU.
        unsafe { libc::signal(libc::SIGABRT, libc::SIG_DFL) };
        A::CALL();
        // The handler returns into abort(), which raises the signal again with the default action.
    }
    let handler: extern "C" fn(i32) = aborted::<A>;
    // SAFETY: abort() is synchronous, so the handler runs where QEMU called it and may do what that
    // place may do.
    unsafe { libc::signal(libc::SIGABRT, handler as libc::sighandler_t) };
}

/// Names the function called when QEMU aborts.
pub(crate) trait AbortHook {
    /// The function.
    const CALL: fn();
}
