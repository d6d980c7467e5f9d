//! Splits a fuzz input into values, for all targets.

/// Takes pieces off an input's front.
pub(crate) struct Input<'d>(pub(crate) &'d [u8]);

impl<'d> Input<'d> {
    /// The next `bytes` bytes, or fewer at the end.
    pub(crate) fn take(&mut self, bytes: usize) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next byte; 0 at the end.
    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }
}
