//! The request, and where it was found.

use std::io;
use std::ops::Deref;
use std::path::Path;

use wire::request::{self, Request};

/// What the plugin is asked to do.
pub(crate) struct Args {
    /// The records' directory, relative to QEMU's working directory.
    pub(crate) dir: String,
    pub(crate) isa: decode::Isa,
    request: Request,
}

impl Deref for Args {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}

impl Args {
    /// Reads the request out of the directory.
    pub(crate) fn read(dir: &str) -> io::Result<Args> {
        let bytes = std::fs::read(Path::new(dir).join(request::FILE_NAME))?;
        let request = Request::read(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let isa = match request.isa {
            request::Isa::Riscv32 => decode::Isa::Riscv32,
            request::Isa::Riscv64 => decode::Isa::Riscv64,
            request::Isa::ThumbV6m => decode::Isa::ThumbV6m,
            request::Isa::ThumbV7m => decode::Isa::ThumbV7m,
            request::Isa::ThumbV8m => decode::Isa::ThumbV8m,
        };
        Ok(Args { dir: dir.to_owned(), isa, request })
    }

    /// The file of what the firmware has printed.
    pub(crate) fn printed(&self) -> String {
        format!("{}.log", self.console)
    }

    /// Whether `bytes` bytes at `address` can be read without a device noticing.
    pub(crate) fn is_memory(&self, address: u64, bytes: u64) -> bool {
        let end = address.checked_add(bytes);
        end.is_some_and(|end| self.memory.iter().any(|range| range.start <= address && end <= range.end))
    }
}
