//! The five transactions on the embedded engine.
//!
//! Each operation enters admission by itself, as each SQL statement of a client does, and counts as a statement. A row
//! that is read to be changed is locked and changed in one operation. Transactions that write run at READ COMMITTED:
//! what they change they lock first. The others read one snapshot.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

use flifo_engine::row::{EntryView, Prefix, Row, RowError, ValueRef};
use flifo_engine::{Isolation, Result as EngineResult, Session, Transaction};

use super::inputs::{Input, Line, NewOrder, Payment, Quirks, Who};
use super::population::BAD_CREDIT;
use super::scale::DISTRICTS;
use super::schema::{customer, district, item, new_order, order_line, orders, stock, warehouse};
use super::tables::Tables;
use crate::measure::closed_loop::End;
use crate::support::error::Error;

/// Orders that stock level looks at.
pub(crate) const RECENT_ORDERS: u32 = 20;
/// Characters of `c_data`.
pub(crate) const DATA_MAX: usize = 500;

/// One user's transactions on the engine.
pub(crate) struct Executor<'s> {
    session: &'s Session,
    tables: &'s Tables,
    quirks: Quirks,
    /// Operations so far.
    statements: u64,
    /// Customers of a name, items of orders.
    found: Vec<u32>,
}

impl<'s> Executor<'s> {
    pub(crate) fn new(session: &'s Session, tables: &'s Tables, quirks: Quirks) -> Self {
        Executor { session, tables, quirks, statements: 0, found: Vec::new() }
    }

    /// The operations since the last call.
    pub(crate) fn take_statements(&mut self) -> u64 {
        std::mem::take(&mut self.statements)
    }

    /// Runs a transaction once. After any error it has been rolled back.
    pub(crate) fn attempt(&mut self, input: &Input) -> Result<End, Error> {
        match input {
            Input::NewOrder(order) => self.new_order(order),
            Input::Payment(payment) => self.payment(payment),
            Input::OrderStatus { warehouse, district, who } => {
                self.order_status((*warehouse, *district), who)
            }
            Input::Delivery { warehouse, carrier } => self.delivery(*warehouse, *carrier),
            Input::StockLevel { warehouse, district, threshold } => {
                self.stock_level((*warehouse, *district), *threshold)
            }
        }
    }

    fn new_order(&mut self, order: &NewOrder) -> Result<End, Error> {
        let (tables, now) = (self.tables, now_s());
        let NewOrder { warehouse: w, district: d, customer: c, ref lines } = *order;
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        let tax = tables.warehouse.get_with(&mut txn, w, |row| number(row.get(warehouse::W_TAX)))?;
        let w_tax = tax.ok_or_else(|| missing("warehouse"))??;
        let (mut o, mut d_tax) = (0, 0);
        let there = tables.district.update_with(&mut txn, (w, d), |row| {
            o = number(row.get(district::D_NEXT_O_ID))?;
            d_tax = number(row.get(district::D_TAX))?;
            Ok(row.set(district::D_NEXT_O_ID, o + 1)?)
        })?;
        found(there, "district")?;
        let discount = tables.customer.get_with(&mut txn, (w, d, c), |row| {
            black_box(text(row.get(customer::C_LAST))?.len() + text(row.get(customer::C_CREDIT))?.len());
            number(row.get(customer::C_DISCOUNT))
        })?;
        let discount = discount.ok_or_else(|| missing("customer"))??;
        tables.new_order.insert(&mut txn, (w, d, o))?;
        let is_local = lines.iter().all(|line| line.supply == w);
        let count = lines.len() as u32;
        tables.orders.insert(&mut txn, (w, d, o, c, now, None::<u32>, count, u32::from(is_local)))?;
        self.statements += 5;
        let mut sum = 0;
        for (place, line) in lines.iter().enumerate() {
            match self.line(&mut txn, order, (o, place as u32 + 1), line)? {
                Some(cents) => sum += cents,
                None => {
                    txn.rollback()?;
                    self.statements += 1;
                    return Ok(End::RolledBack);
                }
            }
        }
        black_box(sum * (10_000 - i64::from(discount)) * i64::from(10_000 + w_tax + d_tax));
        self.commit(txn)
    }

    /// One line; its amount, or none if there is no such item.
    fn line(
        &mut self,
        txn: &mut Transaction<'_>,
        order: &NewOrder,
        (o, place): (u32, u32),
        line: &Line,
    ) -> Result<Option<i64>, Error> {
        let tables = self.tables;
        let (w, d) = (order.warehouse, order.district);
        self.statements += 1;
        let price = tables.item.get_with(txn, line.item, |row| {
            black_box(text(row.get(item::I_DATA))?.contains("ORIGINAL"));
            cents(row.get(item::I_PRICE))
        })?;
        let Some(price) = price.transpose()? else { return Ok(None) };
        let mut dist_info = String::new();
        let there = tables.stock.update_with(txn, (line.supply, line.item), |row| {
            let quantity = number(row.get(stock::S_QUANTITY))?;
            row.set(stock::S_QUANTITY, remaining(quantity, line.quantity))?;
            add(row, stock::S_YTD, line.quantity)?;
            add(row, stock::S_ORDER_CNT, 1)?;
            add(row, stock::S_REMOTE_CNT, u32::from(line.supply != w))?;
            text(row.get(stock::S_DIST_01 + d as usize - 1))?.clone_into(&mut dist_info);
            Ok(())
        })?;
        found(there, "stock")?;
        let amount = price * i64::from(line.quantity);
        let row = (w, d, o, place, line.item, line.supply, None::<u32>, line.quantity, amount, &dist_info);
        tables.order_line.insert(txn, row)?;
        self.statements += 2;
        Ok(Some(amount))
    }

    fn payment(&mut self, payment: &Payment) -> Result<End, Error> {
        let (tables, now) = (self.tables, now_s());
        let Payment { warehouse: w, district: d, of: (c_w, c_d), ref who, cents: amount } = *payment;
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        let (mut w_name, mut d_name) = (String::new(), String::new());
        let there = tables.warehouse.update_with(&mut txn, w, |row| {
            text(row.get(warehouse::W_NAME))?.clone_into(&mut w_name);
            pay(row, warehouse::W_YTD, amount)
        })?;
        found(there, "warehouse")?;
        let there = tables.district.update_with(&mut txn, (w, d), |row| {
            text(row.get(district::D_NAME))?.clone_into(&mut d_name);
            pay(row, district::D_YTD, amount)
        })?;
        found(there, "district")?;
        let c = self.customer(&mut txn, (c_w, c_d), who)?;
        let there = tables.customer.update_with(&mut txn, (c_w, c_d, c), |row| {
            pay(row, customer::C_BALANCE, -amount)?;
            pay(row, customer::C_YTD_PAYMENT, amount)?;
            add(row, customer::C_PAYMENT_CNT, 1)?;
            if text(row.get(customer::C_CREDIT))? == BAD_CREDIT {
                let history = bad_credit((c, c_d, c_w), payment, text(row.get(customer::C_DATA))?);
                row.set(customer::C_DATA, history)?;
            }
            Ok(())
        })?;
        found(there, "customer")?;
        let note = format!("{w_name}    {d_name}");
        let row = (None::<u64>, c, c_d, c_w, d, w, now, amount, &note);
        tables.history.insert(&mut txn, row)?;
        self.statements += 4;
        self.commit(txn)
    }

    fn order_status(&mut self, (w, d): (u32, u32), who: &Who) -> Result<End, Error> {
        let tables = self.tables;
        let mut txn = self.session.begin(Isolation::RepeatableRead);
        let c = self.customer(&mut txn, (w, d), who)?;
        let balance =
            tables.customer.get_with(&mut txn, (w, d, c), |row| cents(row.get(customer::C_BALANCE)))?;
        black_box(balance.ok_or_else(|| missing("customer"))??);
        let mut last = None;
        // The newest order comes first.
        tables.orders.scan_index(&mut txn, "by_customer", Prefix((w, d, c)), |row| {
            last = Some(number(row.get(orders::O_ID)));
            ControlFlow::Break(())
        })?;
        self.statements += 2;
        if let Some(o) = last.transpose()? {
            let mut sum = 0;
            tables.order_line.scan(&mut txn, Prefix((w, d, o)), |row| {
                sum += cents(row.get(order_line::OL_AMOUNT)).unwrap_or_default();
                ControlFlow::Continue(())
            })?;
            black_box(sum);
            self.statements += 1;
        }
        self.commit(txn)
    }

    /// All districts in one transaction, as in DBT-2. A district without new orders is skipped.
    fn delivery(&mut self, w: u32, carrier: u32) -> Result<End, Error> {
        let mut txn = self.session.begin(Isolation::ReadCommitted);
        for d in 1..=DISTRICTS {
            if let Some(o) = self.take_oldest(&mut txn, (w, d))? {
                self.deliver(&mut txn, (w, d, o), carrier)?;
            }
        }
        self.commit(txn)
    }

    /// Removes the oldest new order of a district; which order it was.
    fn take_oldest(&mut self, txn: &mut Transaction<'_>, (w, d): (u32, u32)) -> Result<Option<u32>, Error> {
        loop {
            let mut oldest = None;
            self.tables.new_order.scan(txn, Prefix((w, d)), |row| {
                oldest = Some(number(row.get(new_order::NO_O_ID)));
                ControlFlow::Break(())
            })?;
            self.statements += 1;
            let Some(o) = oldest.transpose()? else { return Ok(None) };
            self.statements += 1;
            // Otherwise another delivery took it while this one waited: the next look sees that.
            if self.tables.new_order.delete(txn, (w, d, o))? {
                return Ok(Some(o));
            }
        }
    }

    fn deliver(
        &mut self,
        txn: &mut Transaction<'_>,
        (w, d, o): (u32, u32, u32),
        carrier: u32,
    ) -> Result<(), Error> {
        let (tables, now) = (self.tables, now_s());
        let mut c = 0;
        let there = tables.orders.update_with(txn, (w, d, o), |row| {
            c = number(row.get(orders::O_C_ID))?;
            Ok(row.set(orders::O_CARRIER_ID, carrier)?)
        })?;
        found(there, "orders")?;
        let (mut sum, mut lines) = (0, 0_u32);
        tables.order_line.scan(txn, Prefix((w, d, o)), |row| {
            sum += cents(row.get(order_line::OL_AMOUNT)).unwrap_or_default();
            lines += 1;
            ControlFlow::Continue(())
        })?;
        for place in 1..=lines {
            let there = tables
                .order_line
                .update_with(txn, (w, d, o, place), |row| Ok(row.set(order_line::OL_DELIVERY_D, now)?))?;
            found(there, "order_line")?;
        }
        let there = tables.customer.update_with(txn, (w, d, c), |row| {
            pay(row, customer::C_BALANCE, sum)?;
            add(row, customer::C_DELIVERY_CNT, 1)
        })?;
        found(there, "customer")?;
        self.statements += 3 + u64::from(lines);
        Ok(())
    }

    fn stock_level(&mut self, (w, d): (u32, u32), threshold: u32) -> Result<End, Error> {
        let tables = self.tables;
        let mut txn = self.session.begin(Isolation::RepeatableRead);
        let next =
            tables.district.get_with(&mut txn, (w, d), |row| number(row.get(district::D_NEXT_O_ID)))?;
        let next = next.ok_or_else(|| missing("district"))??;
        let recent = (w, d, next.saturating_sub(RECENT_ORDERS))..(w, d, next);
        let items = &mut self.found;
        items.clear();
        tables.order_line.scan(&mut txn, recent, |row| {
            items.push(number(row.get(order_line::OL_I_ID)).unwrap_or_default());
            ControlFlow::Continue(())
        })?;
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for &item in &*items {
            let quantity =
                tables.stock.get_with(&mut txn, (w, item), |row| number(row.get(stock::S_QUANTITY)))?;
            low += u32::from(quantity.ok_or_else(|| missing("stock"))?? < threshold);
        }
        black_box(low);
        self.statements += 2 + self.found.len() as u64;
        self.commit(txn)
    }

    /// The customer's number.
    fn customer(&mut self, txn: &mut Transaction<'_>, (w, d): (u32, u32), who: &Who) -> Result<u32, Error> {
        let name = match who {
            Who::Id(c) => return Ok(*c),
            Who::LastName(name) => name.as_str(),
        };
        let found = &mut self.found;
        found.clear();
        self.tables.customer.scan_entries(
            txn,
            "by_name",
            Prefix((w, d, name)),
            |entry: &EntryView<'_>| {
                found.push(number(entry.get(customer::C_ID)).unwrap_or_default());
                ControlFlow::Continue(())
            },
        )?;
        self.statements += 1;
        let chosen = self.quirks.chosen(found.len()).map(|place| found[place]);
        chosen.ok_or_else(|| missing("customer"))
    }

    fn commit(&mut self, txn: Transaction<'_>) -> Result<End, Error> {
        txn.commit()?;
        self.statements += 1;
        Ok(End::Committed)
    }
}

/// The stock that is left after a sale of `sold`: refilled when fewer than ten would be left.
pub(crate) fn remaining(quantity: u32, sold: u32) -> u32 {
    if quantity >= sold + 10 { quantity - sold } else { quantity + 91 - sold }
}

/// What the data of a customer with bad credit say after a payment.
pub(crate) fn bad_credit((c, c_d, c_w): (u32, u32, u32), payment: &Payment, before: &str) -> String {
    let Payment { warehouse, district, cents, .. } = payment;
    let mut data =
        format!("{c} {c_d} {c_w} {district} {warehouse} {}.{:02} | {before}", cents / 100, cents % 100);
    data.truncate(DATA_MAX);
    data
}

/// The present time, seconds since 1970.
pub(crate) fn now_s() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as u32)
}

/// A number of a row; the schema has its range.
fn number(value: Result<ValueRef<'_>, RowError>) -> EngineResult<u32> {
    Ok(value?.as_u64().unwrap_or_default() as u32)
}

fn cents(value: Result<ValueRef<'_>, RowError>) -> EngineResult<i64> {
    Ok(value?.as_i64().unwrap_or_default())
}

fn text<'v>(value: Result<ValueRef<'v>, RowError>) -> EngineResult<&'v str> {
    Ok(value?.as_text().unwrap_or_default())
}

/// Adds to a count.
fn add(row: &mut Row, column: usize, more: u32) -> EngineResult<()> {
    let sum = number(row.get(column))? + more;
    Ok(row.set(column, sum)?)
}

/// Adds to an amount of money.
fn pay(row: &mut Row, column: usize, more: i64) -> EngineResult<()> {
    let sum = cents(row.get(column))? + more;
    Ok(row.set(column, sum)?)
}

fn found(there: bool, table: &'static str) -> Result<(), Error> {
    if there { Ok(()) } else { Err(missing(table)) }
}

fn missing(table: &'static str) -> Error {
    Error::Data(format!(
        "a row of {table} that every data set has is missing: the data are damaged; remove the data directory to load them again"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_refilled_before_fewer_than_ten_are_left() {
        assert_eq!([remaining(20, 10), remaining(19, 10), remaining(10, 10)], [10, 100, 91]);
    }

    #[test]
    fn bad_credit_keeps_the_newest_data() {
        let payment = Payment { warehouse: 1, district: 2, of: (3, 4), who: Who::Id(5), cents: 12_345 };
        let data = bad_credit((5, 4, 3), &payment, &"x".repeat(DATA_MAX));
        assert!(data.starts_with("5 4 3 2 1 123.45 | x") && data.len() == DATA_MAX, "{data}");
    }
}
