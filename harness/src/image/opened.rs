// SPDX-License-Identifier: MIT OR Apache-2.0
//! Firmware file that a command has opened: read once, for all that look at its bytes before and after the run.

use std::path::Path;

use super::{Image, LoadOptions, read};
use crate::error::InputError;

/// Image with the content of the files that it was read from.
#[derive(Debug)]
pub struct Opened {
    /// Facts of the firmware file.
    pub image: Image,
    firmware: Vec<u8>,
    /// Content of the file of `--symbols`.
    symbols: Option<Vec<u8>>,
}

impl Opened {
    /// Reads a firmware file.
    ///
    /// # Errors
    /// See [`Image::open`].
    pub fn open(path: &Path, options: &LoadOptions<'_>) -> Result<Opened, InputError> {
        let firmware = read(path, "firmware")?;
        let symbols = options.symbols.map(|symbols| read(symbols, "symbol file")).transpose()?;
        let image = Image::from_bytes(path, &firmware, options, options.symbols.zip(symbols.as_deref()))?;
        Ok(Opened { image, firmware, symbols })
    }

    /// Content of the file that may name the chip: that of `--symbols`, or else the firmware's.
    pub fn naming_file(&self) -> &[u8] {
        self.symbols.as_deref().unwrap_or(&self.firmware)
    }

    /// The image, and the content of the ELF file that names its addresses, if there is one.
    pub fn into_parts(self) -> (Image, Option<Vec<u8>>) {
        let Opened { image, firmware, symbols } = self;
        let named = image.symbols_from.is_some().then(|| symbols.unwrap_or(firmware));
        (image, named)
    }
}
