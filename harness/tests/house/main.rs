//! What the sources promise of themselves.

mod complete;
mod scripts;
