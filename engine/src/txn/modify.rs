//! Read-modify-write of one row.

use super::Txn;
use super::write::{Before, check_size};
use crate::error::Result;
use crate::tree::Tree;
use crate::wait::Waiter;

/// The new state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It stays as it is.
    Stay,
    /// It gets the new value, or is added with it.
    Put,
    /// It goes.
    Delete,
}

/// The outcome.
pub(crate) struct Modified {
    /// What `choose` said.
    pub(crate) next: Next,
    before: Before,
}

impl Modified {
    /// The value that was replaced or removed.
    pub(crate) fn before(&self) -> Option<&[u8]> {
        self.before.value()
    }
}

impl Txn<'_> {
    /// Passes the newest version of a row, which this transaction may write, to `choose` (`None`: there is no such
    /// row), which may write a new value. Calls `choose` again if another transaction changed the row first, also after
    /// an error.
    pub(crate) fn modify(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: &mut Vec<u8>,
        waiter: &Waiter,
        mut choose: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<Next>,
    ) -> Result<Modified> {
        self.check_active()?;
        self.ended_by_deadlock(waiter, |txn| {
            loop {
                let newest = txn.newest(tree, key, waiter)?;
                let chosen = choose(newest.value(), value).and_then(|next| {
                    if next == Next::Put {
                        check_size(tree, key, value)?;
                    }
                    Ok(next)
                });
                let (value, deleted): (&[u8], bool) = match chosen {
                    Ok(Next::Put) => (value, false),
                    Ok(Next::Delete) => (&[], true),
                    // An error also depends on the version that was read.
                    Ok(Next::Stay) | Err(_) => {
                        if txn.confirm(tree, key, newest.header, waiter)? {
                            return chosen.map(|next| Modified { next, before: Before::default() });
                        }
                        continue;
                    }
                };
                if let Some(before) = txn.replace(tree, key, newest, value, deleted, waiter)? {
                    let next = if deleted { Next::Delete } else { Next::Put };
                    return Ok(Modified { next, before });
                }
            }
        })
    }
}
