//! Auto-increment columns.
//!
//! Numbers come from memory. The engine reserves them durably, a batch at a time, before it uses them. So no number is
//! given twice, and a crash or the end of the process skips at most a batch.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use flifo_base::{lock, try_lock};
use smallvec::SmallVec;

use super::{Scratch, TypedTable};
use crate::db::database::Inner;
use crate::error::{Error, Result};
use crate::metrics::WaitReason;
use crate::row::{ColumnType, ValueRef};
use crate::wait::Waiter;

/// Numbers made durable at a time.
const BATCH: u64 = 1 << 12;

/// Numbers of one table.
///
/// Invariants: `next` only grows, so each number is taken once. A number is used only when `reserved`, which is in the
/// catalog, durable, is greater.
pub(super) struct Numbers {
    next: AtomicU64,
    reserved: AtomicU64,
    /// Held while a thread reserves numbers.
    reserving: Mutex<()>,
}

impl Numbers {
    pub(super) fn new(next: u64) -> Self {
        Numbers { next: AtomicU64::new(next), reserved: AtomicU64::new(next), reserving: Mutex::default() }
    }

    /// The next number; `None` if there is none up to `max`.
    fn take(&self, max: u64) -> Option<u64> {
        let next = |next: u64| (next <= max && next < u64::MAX).then(|| next + 1);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
    }

    /// Continues after `number`, which an embedder chose.
    fn skip(&self, number: u64) {
        if number >= self.next.load(Ordering::Relaxed) {
            self.next.fetch_max(number.saturating_add(1), Ordering::Relaxed);
        }
    }

    fn has_reserved(&self, number: u64) -> bool {
        let reserved = self.reserved.load(Ordering::Acquire);
        // The highest number is never given, but an embedder may choose it: then there are no more numbers, even after
        // a reopen.
        number < reserved || reserved == u64::MAX
    }

    /// Makes sure that `number` is reserved.
    fn reserve(&self, number: u64, waiter: &Waiter, reserve: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        if self.has_reserved(number) {
            return Ok(());
        }
        let _reserving = try_lock(&self.reserving)
            .unwrap_or_else(|| waiter.wait(WaitReason::Catalog, || lock(&self.reserving)));
        if !self.has_reserved(number) {
            let to = number.saturating_add(BATCH);
            reserve(to)?;
            self.reserved.store(to, Ordering::Release);
        }
        Ok(())
    }
}

impl TypedTable {
    /// Encodes a row into `scratch`, with the next number where `column` is NULL; the number, if one was given.
    pub(super) fn encode_numbered(
        &self,
        database: &Inner,
        values: &[ValueRef<'_>],
        column: usize,
        scratch: &mut Scratch,
        waiter: &Waiter,
    ) -> Result<Option<u64>> {
        let numbers = &self.typed.numbers;
        let given = match values.get(column) {
            Some(ValueRef::Null) => {
                let definition = &self.typed.schema.columns()[column];
                let max = if definition.kind() == ColumnType::I64 { i64::MAX as u64 } else { u64::MAX - 1 };
                let exhausted = || Error::NumbersExhausted { column: definition.name().to_owned() };
                Some(numbers.take(max).ok_or_else(exhausted)?)
            }
            _ => None,
        };
        // Before the row is checked: an invalid row costs a number at most.
        let number = given.or_else(|| values.get(column).and_then(|value| value.as_u64()));
        match given {
            None => self.encode(values, scratch)?,
            Some(given) => {
                let mut values: SmallVec<[ValueRef<'_>; 16]> = SmallVec::from_slice(values);
                values[column] = ValueRef::Unsigned(given);
                self.encode(&values, scratch)?;
            }
        }
        if let Some(number) = number {
            numbers.skip(number);
            numbers.reserve(number, waiter, |to| {
                database.check_handle(&self.open)?;
                database.catalog.set_next_number(waiter, self.open.tree.root(), to)?;
                database.sync(waiter)
            })?;
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_and_reserved_before() {
        let (numbers, waiter) = (Numbers::new(1), Waiter::background());
        let mut reserved = 1;
        for expected in 1..3 * BATCH {
            let number = numbers.take(u64::MAX).unwrap();
            assert_eq!(number, expected);
            let reserve = |to| {
                reserved = to;
                Ok(())
            };
            numbers.reserve(number, &waiter, reserve).unwrap();
            assert!(number < reserved);
        }
        numbers.skip(3 * BATCH + 5);
        numbers.skip(7);
        assert_eq!(numbers.take(u64::MAX), Some(3 * BATCH + 6));
        assert!(matches!(numbers.reserve(5 * BATCH, &waiter, |_| Err(Error::Closed)), Err(Error::Closed)));
        assert_eq!(numbers.take(3 * BATCH + 6), None);
        numbers.skip(u64::MAX);
        assert_eq!(numbers.take(u64::MAX), None);
        let mut reserved = 0;
        let reserve = |to| {
            reserved = to;
            Ok(())
        };
        numbers.reserve(u64::MAX, &waiter, reserve).unwrap();
        assert_eq!(reserved, u64::MAX);
        numbers.reserve(u64::MAX, &waiter, |_| unreachable!("it is reserved")).unwrap();
    }
}
