// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refusal: the reason why the plugin did not start, as one small record of fixed size.
//!
//! The harness creates the file, all zero. So a plugin whose records no longer fit on the disk only overwrites bytes
//! that are already there.

use crate::Malformed;

/// Name of the file.
pub const FILE_NAME: &str = "refusal";

/// Size of the file in bytes: magic, code and value, each a little-endian u64.
pub const BYTES: usize = 24;

const MAGIC: u64 = u64::from_le_bytes(*b"fwrefus\n");

/// Reason why the plugin refuses to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request cannot be read; QEMU's error output says more.
    Request,
    /// Several vCPUs on a processor whose registers do not say which vCPU executes.
    SeveralVcpus,
    /// The exact call tree of several vCPUs.
    ExactOfSeveralVcpus,
    /// Several vCPUs on a QEMU that does not say which vCPU executes.
    UntoldVcpus,
    /// A file could not be read, created or mapped.
    Io {
        /// The host's error number, above 0.
        errno: i32,
    },
    /// The host lacks something that is needed; QEMU's error output names it.
    Host,
    /// The machine cannot be completed to a chip: QEMU's error output names the missing function.
    Chip,
}

impl Refusal {
    fn code(self) -> u64 {
        match self {
            Refusal::Request => 1,
            Refusal::SeveralVcpus => 2,
            Refusal::ExactOfSeveralVcpus => 3,
            Refusal::Io { .. } => 4,
            Refusal::Host => 5,
            Refusal::UntoldVcpus => 6,
            Refusal::Chip => 7,
        }
    }

    /// Encodes the file.
    ///
    /// # Errors
    /// When the error number is not above 0.
    pub fn bytes(self) -> Result<[u8; BYTES], Malformed> {
        let value = match self {
            Refusal::Io { errno } if errno <= 0 => return Err(Malformed { what: "refusal", offset: 0 }),
            Refusal::Io { errno } => errno as u64,
            _ => 0,
        };
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip([MAGIC, self.code(), value]) {
            *place = word.to_le_bytes();
        }
        Ok(bytes)
    }

    /// Decodes the file; None: nothing was refused.
    ///
    /// # Errors
    /// When the bytes are not such a file.
    pub fn read(bytes: &[u8]) -> Result<Option<Refusal>, Malformed> {
        let malformed = |offset| Malformed { what: "refusal", offset };
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| malformed(0))?;
        let mut words = [0; 3];
        for (word, &bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(bytes);
        }
        match words {
            [0, 0, 0] => Ok(None),
            [MAGIC, 1, 0] => Ok(Some(Refusal::Request)),
            [MAGIC, 2, 0] => Ok(Some(Refusal::SeveralVcpus)),
            [MAGIC, 3, 0] => Ok(Some(Refusal::ExactOfSeveralVcpus)),
            [MAGIC, 4, value] => {
                let errno = i32::try_from(value).ok().filter(|&errno| errno > 0).ok_or(malformed(16))?;
                Ok(Some(Refusal::Io { errno }))
            }
            [MAGIC, 5, 0] => Ok(Some(Refusal::Host)),
            [MAGIC, 6, 0] => Ok(Some(Refusal::UntoldVcpus)),
            [MAGIC, 7, 0] => Ok(Some(Refusal::Chip)),
            [MAGIC, ..] => Err(malformed(8)),
            _ => Err(malformed(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Refusal; 7] = [
        Refusal::Request,
        Refusal::SeveralVcpus,
        Refusal::ExactOfSeveralVcpus,
        Refusal::UntoldVcpus,
        Refusal::Io { errno: 28 },
        Refusal::Host,
        Refusal::Chip,
    ];

    #[test]
    fn refusals_survive_the_wire() {
        for refusal in ALL {
            assert_eq!(Refusal::read(&refusal.bytes().unwrap()), Ok(Some(refusal)));
        }
        assert_eq!(Refusal::read(&[0; BYTES]), Ok(None), "as the harness creates it");
    }

    #[test]
    fn what_is_no_refusal_is_refused() {
        assert!(Refusal::Io { errno: 0 }.bytes().is_err());
        for refusal in ALL {
            let bytes = refusal.bytes().unwrap();
            for cut in 0..BYTES {
                assert!(Refusal::read(&bytes[..cut]).is_err());
                for bit in 0..8 {
                    let mut flipped = bytes;
                    flipped[cut] ^= 1 << bit;
                    assert_ne!(Refusal::read(&flipped), Ok(Some(refusal)), "byte {cut} bit {bit} does not matter");
                }
            }
            let mut unknown = bytes;
            unknown[8] = 99;
            assert!(Refusal::read(&unknown).is_err());
        }
    }
}
