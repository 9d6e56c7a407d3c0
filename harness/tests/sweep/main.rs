//! The promises that hold for every image, whatever it is. By default on a named dozen; `HARNESS_IMAGES=all cargo
//! test -p harness --release --test sweep` is the whole sweep, which .ci/run does.

#[path = "../common/mod.rs"]
mod common;

mod mcount;
mod oracle;
mod reproducible;
mod stacks;
