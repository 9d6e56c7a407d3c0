// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths in the JSON of messages and caches: as bytes, since a path need not be text.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

pub(in crate::gate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().as_bytes().serialize(serializer)
}

pub(in crate::gate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(OsString::from_vec(Vec::deserialize(deserializer)?).into())
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::gate::path_bytes;

    #[test]
    fn a_path_need_not_be_text() {
        #[derive(Serialize, Deserialize)]
        struct Holder(#[serde(with = "path_bytes")] PathBuf);
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/a/\xff \n"));
        let text = serde_json::to_vec(&Holder(odd.to_owned())).unwrap();
        let Holder(back) = serde_json::from_slice(&text).unwrap();
        assert_eq!(back, odd);
    }
}
