//! The consistency conditions 1 to 4 of TPC-C, and the acknowledged changes.
//!
//! The facts of a warehouse are read by whom has its tables: [`of_warehouse`] on the embedded engine, in one snapshot, and
//! queries on a server. What they must satisfy is written once, in [`judge`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use flifo_engine::row::{Prefix, RowError, ValueRef};
use flifo_engine::{Database, Error as EngineError, Isolation, Session};

use super::scale::{DISTRICTS, Scale};
use super::schema::{district, new_order, orders, warehouse};
use super::tables::Tables;
use crate::measure::closed_loop::Account;
use crate::measure::workload::without_limit;
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::progress::Progress;

/// What the tables say about a district.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DistrictFacts {
    /// `d_ytd`, cents.
    pub(crate) ytd: i64,
    /// `d_next_o_id`.
    pub(crate) next: u64,
    /// The highest `o_id`; 0 without orders.
    pub(crate) order_max: u64,
    /// Sum of `o_ol_cnt`.
    pub(crate) lines_counted: u64,
    /// Rows of `order_line`.
    pub(crate) lines: u64,
    /// Rows of `new_order`, and their lowest and highest `no_o_id`.
    pub(crate) new_orders: u64,
    pub(crate) new_order_min: u64,
    pub(crate) new_order_max: u64,
}

/// What the tables say about a warehouse.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WarehouseFacts {
    /// `w_ytd`, cents.
    pub(crate) ytd: i64,
    /// By district.
    pub(crate) districts: BTreeMap<u32, DistrictFacts>,
}

/// A condition that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// 1 to 4 as in TPC-C; 0: the changes that users saw acknowledged.
    pub condition: u8,
    /// What is wrong, and where.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.condition {
            0 => write!(f, "acknowledged changes: {}", self.what),
            condition => write!(f, "consistency condition {condition}: {}", self.what),
        }
    }
}

/// What the tables hold.
fn account_of(facts: &BTreeMap<u32, WarehouseFacts>) -> Account {
    let districts = facts.values().flat_map(|warehouse| warehouse.districts.values());
    Account {
        orders: districts.map(|district| district.next as i64 - 1).sum(),
        paid_cents: facts.values().map(|warehouse| warehouse.ytd).sum(),
    }
}

/// The conditions that do not hold.
pub(crate) fn judge(scale: &Scale, facts: &BTreeMap<u32, WarehouseFacts>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut note = |condition, what| violations.push(Violation { condition, what });
    for w in 1..=scale.warehouses {
        let Some(warehouse) = facts.get(&w) else {
            note(1, format!("warehouse {w} is missing"));
            continue;
        };
        let sum: i64 = warehouse.districts.values().map(|district| district.ytd).sum();
        if sum != warehouse.ytd {
            let found = warehouse.ytd;
            note(
                1,
                format!("warehouse {w} has w_ytd {found} cents, but its districts' d_ytd add up to {sum}"),
            );
        }
        for d in 1..=DISTRICTS {
            let Some(district) = warehouse.districts.get(&d) else {
                note(2, format!("district {d} of warehouse {w} is missing"));
                continue;
            };
            let DistrictFacts { next, order_max, lines_counted, lines, .. } = *district;
            let DistrictFacts { new_orders, new_order_min: first, new_order_max: last, .. } = *district;
            let place = format!("district {d} of warehouse {w}");
            // All may be delivered.
            if order_max + 1 != next || new_orders > 0 && last + 1 != next {
                note(
                    2,
                    format!(
                        "{place} has d_next_o_id {next}, but max(o_id) {order_max} and max(no_o_id) {last}"
                    ),
                );
            }
            if new_orders > 0 && last - first + 1 != new_orders {
                note(
                    3,
                    format!("{place} has {new_orders} rows of new_order, but no_o_id from {first} to {last}"),
                );
            }
            if lines_counted != lines {
                note(
                    4,
                    format!(
                        "{place} has {lines} rows of order_line, but its o_ol_cnt add up to {lines_counted}"
                    ),
                );
            }
        }
    }
    violations
}

/// The facts as an error if they break a condition, or do not hold exactly the `acknowledged` changes since `before`.
pub(crate) fn verdict(
    scale: &Scale,
    facts: &BTreeMap<u32, WarehouseFacts>,
    (before, acknowledged): (Account, Account),
) -> Vec<Violation> {
    let mut violations = judge(scale, facts);
    let found = account_of(facts).minus(before);
    if found != acknowledged {
        let what = format!(
            "the tables have {} new orders and {} cents of payments since the load began, but users saw {} and {} committed",
            found.orders, found.paid_cents, acknowledged.orders, acknowledged.paid_cents
        );
        violations.push(Violation { condition: 0, what });
    }
    violations
}

/// The violations as an error.
pub(crate) fn as_error(violations: &[Violation]) -> Result<(), Error> {
    match violations {
        [] => Ok(()),
        [first, rest @ ..] => Err(Error::Data(format!(
            "the data are not consistent after the load: {first}{}; please report this",
            if rest.is_empty() { String::new() } else { format!(" ({} more violations)", rest.len()) }
        ))),
    }
}

/// What the tables hold now, out of the two smallest.
pub(crate) fn account(database: &Database, tables: &Tables) -> Result<Account, Error> {
    let session = database.session(&without_limit());
    let mut txn = session.begin(Isolation::RepeatableRead);
    let (mut account, mut failed) = (Account::default(), None);
    let mut note = |value: Result<i64, RowError>, sum: &mut i64, less: i64| match value {
        Ok(value) => {
            *sum += value - less;
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    };
    tables
        .district
        .scan(&mut txn, .., |row| note(integer(row.get(district::D_NEXT_O_ID)), &mut account.orders, 1))?;
    tables
        .warehouse
        .scan(&mut txn, .., |row| note(integer(row.get(warehouse::W_YTD)), &mut account.paid_cents, 0))?;
    failed.map_or(Ok(account), |error| Err(EngineError::from(error).into()))
}

/// Reads the facts of all warehouses, with a thread for each CPU.
pub(crate) fn facts(
    database: &Database,
    tables: &Tables,
    scale: &Scale,
    progress: &Progress,
) -> Result<BTreeMap<u32, WarehouseFacts>, Error> {
    let bar = progress.warehouses(scale.warehouses);
    let (next, done) = (AtomicU32::new(1), AtomicU64::new(0));
    let admission = without_limit();
    let work = || -> Result<Vec<(u32, WarehouseFacts)>, Error> {
        let session = database.session(&admission);
        let mut all = Vec::new();
        loop {
            let w = next.fetch_add(1, Ordering::Relaxed);
            if w > scale.warehouses {
                return Ok(all);
            }
            if interrupt::is_requested() {
                return Err(Error::Interrupted);
            }
            if let Some(facts) = of_warehouse(&session, tables, w)? {
                all.push((w, facts));
            }
            bar.set_position(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(scale.warehouses as usize);
    let found: Vec<Result<Vec<_>, Error>> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err(Error::Panicked("while it read the tables".into()));
        all.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    bar.finish_and_clear();
    let found: Vec<Vec<_>> = found.into_iter().collect::<Result<_, _>>()?;
    Ok(found.into_iter().flatten().collect())
}

/// The facts of a warehouse in one snapshot; none if there is no such warehouse.
pub(crate) fn of_warehouse(
    session: &Session,
    tables: &Tables,
    w: u32,
) -> Result<Option<WarehouseFacts>, EngineError> {
    let mut txn = session.begin(Isolation::RepeatableRead);
    let ytd = tables.warehouse.get_with(&mut txn, w, |row| integer(row.get(warehouse::W_YTD)))?;
    let Some(ytd) = ytd.transpose()? else { return Ok(None) };
    let mut facts = WarehouseFacts { ytd, districts: BTreeMap::new() };
    let mut failed = None;
    let mut note = |result: Result<(), RowError>| match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    };
    let districts = &mut facts.districts;
    tables.district.scan(&mut txn, Prefix(w), |row| {
        note((|| {
            let district = districts.entry(integer(row.get(district::D_ID))? as u32).or_default();
            district.ytd = integer(row.get(district::D_YTD))?;
            district.next = integer(row.get(district::D_NEXT_O_ID))? as u64;
            Ok(())
        })())
    })?;
    tables.orders.scan(&mut txn, Prefix(w), |row| {
        note((|| {
            let district = districts.entry(integer(row.get(orders::O_D_ID))? as u32).or_default();
            district.order_max = district.order_max.max(integer(row.get(orders::O_ID))? as u64);
            district.lines_counted += integer(row.get(orders::O_OL_CNT))? as u64;
            Ok(())
        })())
    })?;
    tables.new_order.scan(&mut txn, Prefix(w), |row| {
        note((|| {
            let district = districts.entry(integer(row.get(new_order::NO_D_ID))? as u32).or_default();
            let o = integer(row.get(new_order::NO_O_ID))? as u64;
            district.new_order_min = if district.new_orders == 0 { o } else { district.new_order_min.min(o) };
            district.new_order_max = district.new_order_max.max(o);
            district.new_orders += 1;
            Ok(())
        })())
    })?;
    tables.order_line.scan(&mut txn, Prefix(w), |row| {
        note((|| {
            let d = integer(row.get(super::schema::order_line::OL_D_ID))? as u32;
            districts.entry(d).or_default().lines += 1;
            Ok(())
        })())
    })?;
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Some(facts)),
    }
}

/// An integer of a row; the schema has its range.
fn integer(value: Result<ValueRef<'_>, RowError>) -> Result<i64, RowError> {
    Ok(value?.as_i64().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> BTreeMap<u32, WarehouseFacts> {
        let district = DistrictFacts {
            ytd: 10,
            next: 61,
            order_max: 60,
            lines_counted: 500,
            lines: 500,
            new_orders: 18,
            new_order_min: 43,
            new_order_max: 60,
        };
        let districts = (1..=DISTRICTS).map(|d| (d, district)).collect();
        BTreeMap::from([(1, WarehouseFacts { ytd: 100, districts })])
    }

    /// The conditions that a change of one fact breaks.
    fn broken(change: impl FnOnce(&mut WarehouseFacts)) -> Vec<u8> {
        let mut facts = sound();
        change(facts.get_mut(&1).unwrap());
        judge(&Scale::small(1), &facts).iter().map(|violation| violation.condition).collect()
    }

    fn of_district(change: impl FnOnce(&mut DistrictFacts)) -> Vec<u8> {
        broken(|warehouse| change(warehouse.districts.get_mut(&7).unwrap()))
    }

    #[test]
    fn each_condition_is_checked() {
        assert_eq!(broken(|_| ()), [0_u8; 0]);
        assert_eq!(broken(|warehouse| warehouse.ytd += 1), [1]);
        assert_eq!(of_district(|district| district.ytd -= 1), [1]);
        assert_eq!(of_district(|district| district.next += 1), [2]);
        assert_eq!(of_district(|district| district.order_max -= 1), [2]);
        assert_eq!(of_district(|district| (district.new_order_max, district.new_orders) = (59, 17)), [2]);
        assert_eq!(of_district(|district| district.new_orders -= 1), [3]);
        assert_eq!(of_district(|district| district.lines -= 1), [4]);
        assert_eq!(of_district(|district| district.lines_counted += 1), [4]);
        assert_eq!(broken(|warehouse| warehouse.districts.retain(|d, _| *d != 3)), [1, 2]);
        let delivered =
            DistrictFacts { new_orders: 0, new_order_min: 0, new_order_max: 0, ..sound()[&1].districts[&1] };
        assert_eq!(of_district(|district| *district = delivered), [0_u8; 0], "all delivered");
    }

    #[test]
    fn a_missing_warehouse_is_a_violation() {
        assert_eq!(judge(&Scale::small(2), &sound()).len(), 1);
    }

    #[test]
    fn a_change_that_no_user_saw_committed_is_a_violation() {
        let (scale, facts) = (Scale::small(1), sound());
        let now = account_of(&facts);
        assert_eq!(now, Account { orders: 600, paid_cents: 100 });
        let before = now.minus(Account { orders: 3, paid_cents: 5 });
        let conditions = |acknowledged: Account| verdict(&scale, &facts, (before, acknowledged)).len();
        assert_eq!(conditions(Account { orders: 3, paid_cents: 5 }), 0);
        assert_eq!(conditions(Account { orders: 2, paid_cents: 5 }), 1);
        assert_eq!(conditions(Account { orders: 3, paid_cents: 4 }), 1);
    }
}
