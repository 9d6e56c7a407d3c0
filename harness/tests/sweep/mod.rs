// SPDX-License-Identifier: MIT OR Apache-2.0
//! Promises that hold for every image. By default a named dozen is tested; `HARNESS_IMAGES=all cargo test --test promises sweep::` is
//! the whole sweep, which .ci/run does.

mod bounds;
mod mcount;
mod oracle;
mod reproducible;
mod stacks;
