//! What the targets take their inputs apart with; it knows none of them.

/// Takes pieces off an input's front.
pub(crate) struct Input<'d>(pub(crate) &'d [u8]);

impl<'d> Input<'d> {
    /// The next bytes, as many as there are of this many.
    pub(crate) fn take(&mut self, bytes: usize) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next byte; 0 where there is none.
    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }
}
