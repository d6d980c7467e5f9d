//! The data set on a server: found or loaded, and its facts for the check.

use std::collections::BTreeMap;

use super::check::{self, DistrictFacts, Violation, WarehouseFacts};
use super::population::Population;
use super::scale::Scale;
use super::schema::TABLES;
use crate::measure::closed_loop::Account;
use crate::measure::server::connect::{self, explain};
use crate::measure::server::data_set::DataSet;
use crate::measure::server::endpoint::Endpoint;
use crate::support::error::Error;
use crate::support::progress::Progress;

/// Finds or loads the data in the address's database.
pub(crate) fn prepare(
    endpoint: &Endpoint,
    (scale, seed): (Scale, u64),
    progress: &Progress,
) -> Result<(), Error> {
    let population = Population::new(scale, seed);
    let Scale { warehouses, items, customers } = scale;
    let set = DataSet {
        name: "dbt2",
        described: format!(
            "layout 1, {warehouses} warehouses, {items} items, {customers} customers a district, seed {seed}"
        ),
        tables: &TABLES,
        parts: warehouses,
        rows_total: scale.rows(),
        rows: &|table, warehouse| population.rows_of(table, warehouse..=warehouse),
    };
    set.prepare(endpoint, progress)
}

/// What acknowledged transactions have added so far, for [`check`].
pub(crate) fn account(endpoint: &Endpoint) -> Result<Account, Error> {
    let mut server = Server::open(endpoint)?;
    let orders = server.numbers("SELECT CAST(SUM(d_next_o_id - 1) AS SIGNED) FROM district")?;
    let paid = server.numbers("SELECT CAST(SUM(w_ytd) * 100 AS SIGNED) FROM warehouse")?;
    let first = |rows: Vec<Vec<i64>>| rows.first().and_then(|row| row.first().copied()).unwrap_or_default();
    Ok(Account { orders: first(orders), paid_cents: first(paid) })
}

/// Checks consistency conditions 1 to 4, and that exactly the `acknowledged` changes were added to those of `before`. No
/// user may be active.
pub(crate) fn check(
    endpoint: &Endpoint,
    scale: &Scale,
    accounts: (Account, Account),
) -> Result<Vec<Violation>, Error> {
    Ok(check::verdict(scale, &facts(endpoint)?, accounts))
}

fn facts(endpoint: &Endpoint) -> Result<BTreeMap<u32, WarehouseFacts>, Error> {
    let mut server = Server::open(endpoint)?;
    let mut facts: BTreeMap<u32, WarehouseFacts> = BTreeMap::new();
    for row in server.numbers("SELECT w_id, CAST(w_ytd * 100 AS SIGNED) FROM warehouse")? {
        facts.entry(row[0] as u32).or_default().ytd = row[1];
    }
    let mut read = |sql: &str, note: fn(&mut DistrictFacts, &[i64])| -> Result<(), Error> {
        for row in server.numbers(sql)? {
            let warehouse = facts.entry(row[0] as u32).or_default();
            note(warehouse.districts.entry(row[1] as u32).or_default(), &row[2..]);
        }
        Ok(())
    };
    read("SELECT d_w_id, d_id, CAST(d_ytd * 100 AS SIGNED), d_next_o_id FROM district", |district, row| {
        (district.ytd, district.next) = (row[0], row[1] as u64)
    })?;
    read(
        "SELECT o_w_id, o_d_id, MAX(o_id), CAST(SUM(o_ol_cnt) AS SIGNED) FROM orders GROUP BY o_w_id, o_d_id",
        |district, row| (district.order_max, district.lines_counted) = (row[0] as u64, row[1] as u64),
    )?;
    read(
        "SELECT no_w_id, no_d_id, COUNT(*), MIN(no_o_id), MAX(no_o_id) FROM new_order GROUP BY no_w_id, no_d_id",
        |district, row| {
            district.new_orders = row[0] as u64;
            (district.new_order_min, district.new_order_max) = (row[1] as u64, row[2] as u64);
        },
    )?;
    read("SELECT ol_w_id, ol_d_id, COUNT(*) FROM order_line GROUP BY ol_w_id, ol_d_id", |district, row| {
        district.lines = row[0] as u64
    })?;
    Ok(facts)
}

struct Server<'a> {
    session: crate::measure::server::Session,
    endpoint: &'a Endpoint,
}

impl<'a> Server<'a> {
    fn open(endpoint: &'a Endpoint) -> Result<Self, Error> {
        let mut session = connect::open(endpoint)?;
        connect::set_own_mode(&mut session, endpoint)?;
        session.take_time();
        Ok(Server { session, endpoint })
    }

    /// The rows of a query whose columns are all integers.
    fn numbers(&mut self, sql: &str) -> Result<Vec<Vec<i64>>, Error> {
        let rows = self.session.query(sql).map_err(|error| explain(self.endpoint, error))?;
        let number = |field: Option<String>| field.and_then(|text| text.parse().ok());
        let row = |row: Vec<Option<String>>| row.into_iter().map(number).collect::<Option<Vec<i64>>>();
        rows.into_iter().map(row).collect::<Option<_>>().ok_or(Error::Protocol("a number that is none"))
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.session.say_goodbye();
    }
}
