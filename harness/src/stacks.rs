//! Placeholder: being written.

/// How stacks are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Fold.
    pub fold_irqs: bool,
}
