//! Nothing: this package only names others.
// SPDX-License-Identifier: MIT OR Apache-2.0
