//! Placeholder: being written.
use std::ops::Range;

/// FreeRTOS as found in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Address.
    pub current: u64,
    /// Cores.
    pub cores: u32,
    /// Bytes.
    pub pointer_bytes: u32,
    /// Running.
    pub running: Option<Variable>,
    /// Idle.
    pub idle: Vec<u64>,
    /// Layout.
    pub layout: Option<Layout>,
    /// Switchers.
    pub switchers: Vec<Range<u64>>,
    /// Delete.
    pub delete: Option<u64>,
}

/// Variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Address.
    pub address: u64,
    /// Bytes.
    pub bytes: u32,
}

/// Layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name.
    pub name: Range<u64>,
    /// Stack.
    pub stack: u64,
    /// End.
    pub stack_end: Option<u64>,
}

/// Find.
pub fn find(_: Option<&[u8]>, _: u64, _: bool) -> (Option<Kernel>, Vec<String>) {
    (None, Vec::new())
}
