// SPDX-License-Identifier: GPL-2.0-or-later
//! The guest's registers and memory.

use std::collections::HashMap;
use std::ffi::{CStr, c_uint};

use engine::guest::{MAX_READ_BYTES, Vcpu};

use super::address::physical;
use super::api::raw::{
    self, GByteArray, g_array_free, g_array_get_element_size, g_byte_array_free, g_byte_array_set_size,
    g_byte_array_sized_new,
};
use super::api::register::Register;
use super::api::versions::{self, Description};
use super::beyond::device::at_time;
use super::beyond::register_file::{RegisterFile, RegisterPlace};
use super::thread::Thread;

/// Handles of the guest's registers, and the buffer that QEMU copies guest data into.
pub(crate) struct Registers {
    handles: HashMap<String, *mut raw::Register>,
    general: Vec<Option<Register>>,
    file: RegisterFile,
    /// All registers in QEMU's order: feature, name, handle.
    all: Vec<(String, String, Register)>,
    buffer: *mut GByteArray,
}

// SAFETY: handles are numbers to QEMU; the buffer is only used behind the plugin's one lock.
unsafe impl Send for Registers {}

impl Registers {
    /// Compares the API's registers with their candidate places.
    fn compare(&mut self) {
        let (mut values, mut value_bytes) = (Vec::new(), 0);
        for number in 0..self.file.count() {
            let register = self.general.get(number).copied().flatten();
            if let Some(value) = register.and_then(|register| self.read(register)) {
                values.push(value);
            }
            // SAFETY: the buffer is glib's; it has the last value read.
            value_bytes = unsafe { (*self.buffer).len } as usize;
        }
        if values.len() == self.file.count() {
            self.file.compare(&values, value_bytes);
        }
    }

    /// Place of an integer register in QEMU's memory.
    pub(crate) fn place(&self, number: u8) -> RegisterPlace {
        self.file.place(number)
    }

    /// Looks for the place of the integer registers; only inside callbacks of the vCPU.
    pub(crate) fn seek(&mut self) {
        if matches!(self.file.place(0), RegisterPlace::Sought) {
            self.compare();
        }
    }

    /// Feature, name and handle of all registers, in QEMU's order.
    pub(crate) fn all(&self) -> &[(String, String, Register)] {
        &self.all
    }

    /// Bytes of a register in the guest's order; only inside callbacks of the vCPU.
    pub(crate) fn read_bytes(&mut self, register: Register) -> Option<&[u8]> {
        // SAFETY: handle from QEMU, buffer from glib, on the vCPU's thread with registers synced; the borrow of the
        // buffer ends before the next read.
        unsafe {
            g_byte_array_set_size(self.buffer, 0);
            // The buffer's length shows success in any version, unlike the result.
            versions::qemu_plugin_read_register(register.handle(), self.buffer);
            if (*self.buffer).len == 0 {
                return None;
            }
            Some(std::slice::from_raw_parts((*self.buffer).data, (*self.buffer).len as usize))
        }
    }

    fn read_guest(&mut self, address: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: buffer from glib, on the vCPU's thread; the borrow of it ends before the next read.
        unsafe { read_guest(self.buffer, address, len) }
    }
}

/// Only inside callbacks of the vCPU. The buffer has room for the largest read, so that glib never enlarges it; the
/// abort handler relies on that.
impl Vcpu for Registers {
    type Register = Register;

    fn find(general: &[&str], in_a_row: usize) -> Self {
        let mut handles = HashMap::new();
        let mut all = Vec::new();
        // SAFETY: called on a vCPU's thread; the caller owns the array that comes back.
        let array = unsafe { raw::qemu_plugin_get_registers() };
        // SAFETY: a GArray of `len` descriptions, of the size that glib tells. Each begins as declared, and has a
        // NUL-terminated name and, if any, feature.
        unsafe {
            let bytes = g_array_get_element_size(array) as usize;
            for index in 0..(*array).len as usize {
                let description = &*(*array).data.add(index * bytes).cast::<Description>();
                let name = CStr::from_ptr(description.name).to_string_lossy().into_owned();
                let feature = match description.feature {
                    feature if feature.is_null() => String::new(),
                    feature => CStr::from_ptr(feature).to_string_lossy().into_owned(),
                };
                all.push((feature, name.clone(), Register::new(description.handle)));
                handles.entry(name).or_insert(description.handle);
            }
            g_array_free(array, 1);
        }
        // SAFETY: no precondition; kept for the life of the process.
        let buffer = unsafe { g_byte_array_sized_new(MAX_READ_BYTES as c_uint) };
        let general = general.iter().map(|&name| handles.get(name).copied().map(Register::new)).collect();
        Registers { handles, general, file: RegisterFile::new(in_a_row), all, buffer }
    }

    fn get(&self, name: &str) -> Option<Register> {
        self.handles.get(name).copied().map(Register::new)
    }

    fn read_general(&mut self, number: u8) -> Option<u64> {
        if let Some(value) = self.file.get(number) {
            return Some(value);
        }
        if self.file.is_time() {
            self.compare();
        }
        let register = (*self.general.get(usize::from(number))?)?;
        self.read(register)
    }

    fn read(&mut self, register: Register) -> Option<u64> {
        let bytes = self.read_bytes(register)?;
        let mut value = [0; 8];
        let len = bytes.len().min(8);
        value[..len].copy_from_slice(&bytes[..len]);
        Some(u64::from_le_bytes(value))
    }

    fn read_memory_into(&mut self, address: u64, len: usize, bytes: &mut Vec<u8>) -> bool {
        bytes.clear();
        self.read_guest(address, len).map(|read| bytes.extend_from_slice(read)).is_some()
    }

    fn read_memory_word(&mut self, address: u64, len: usize) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..len)?.copy_from_slice(self.read_guest(address, len)?.get(..len)?);
        Some(u64::from_le_bytes(word))
    }

    fn physical(&mut self, address: u64) -> Option<u64> {
        physical(address)
    }

    fn is_here() -> bool {
        Thread::current().is_guests()
    }
}

/// Reads guest memory into a buffer.
///
/// # Safety
/// The buffer is glib's, and not used elsewhere while the result is borrowed from it.
unsafe fn read_guest<'a>(buffer: *mut GByteArray, address: u64, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the buffer is glib's; QEMU sets its size and fills it.
    unsafe {
        g_byte_array_set_size(buffer, 0);
        raw::qemu_plugin_read_memory_vaddr(address, buffer, len)
            .then(|| std::slice::from_raw_parts((*buffer).data, (*buffer).len as usize))
    }
}

/// Reads a byte of a device's registers, which may lock QEMU and the device; the plugin's state is not locked. A device of ours
/// has this time.
pub(crate) fn device_byte(address: u64, ns: Option<u64>) -> Option<u8> {
    at_time(ns, || {
        // SAFETY: a new buffer, which lives until its byte has been copied, and is freed with its data.
        unsafe {
            let buffer = g_byte_array_sized_new(1);
            let byte = read_guest(buffer, address, 1).and_then(|bytes| bytes.first().copied());
            g_byte_array_free(buffer, 1);
            byte
        }
    })
}

/// A separate buffer for the handler of QEMU's abort, which may find the plugin's state locked.
pub(crate) struct FaultBuffer(*mut GByteArray);

// SAFETY: only the handler uses the buffer, and that runs once.
unsafe impl Send for FaultBuffer {}
// SAFETY: as above.
unsafe impl Sync for FaultBuffer {}

impl FaultBuffer {
    /// An empty buffer.
    pub(crate) fn new() -> FaultBuffer {
        // SAFETY: no precondition; kept for the life of the process.
        FaultBuffer(unsafe { g_byte_array_sized_new(MAX_READ_BYTES as c_uint) })
    }

    /// Reads guest memory in the handler, on the thread of a vCPU; on another thread QEMU would abort again.
    pub(crate) fn read(&self, address: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: the buffer is glib's, and only this handler uses it.
        unsafe { read_guest(self.0, address, len) }.filter(|bytes| bytes.len() == len)
    }
}
