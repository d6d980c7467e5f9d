//! The rows as loaded, by TPC-C's rules. (seed, table, key) determines each row, so tables load in parallel.

use flifo_engine::row::Value;

use super::scale::{Constants, DISTRICTS, Purpose, Scale, between, data, digits, letters, percent, purpose};
use super::schema::{customer, district, history, item, new_order, order_line, orders, stock, warehouse};
use crate::measure::definition::{TableDefinition, Values};
use crate::measure::workload::{Random, stream};

/// The time of the load, seconds since 1970: data of one seed are the same whenever they are loaded.
pub(crate) const LOADED_AT: u32 = 1_700_000_000;

/// Lines of an order as loaded, least and most.
const LINES: (u32, u32) = (5, 14);
/// What a warehouse has taken in, and a tenth of it each district, in cents.
const DISTRICT_YTD: i64 = 3_000_000;

/// A data set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Population {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    constants: Constants,
}

impl Population {
    pub(crate) fn new(scale: Scale, seed: u64) -> Self {
        Population { scale, seed, constants: Constants::of(seed) }
    }

    /// All rows of a table, in the order of its primary key.
    pub(crate) fn rows(self, table: &TableDefinition) -> Box<dyn Iterator<Item = Values> + Send> {
        let warehouses = 1..=self.scale.warehouses;
        self.rows_of(table, warehouses)
    }

    /// The rows of some warehouses; `item` belongs to the first.
    pub(crate) fn rows_of(
        self,
        table: &TableDefinition,
        warehouses: std::ops::RangeInclusive<u32>,
    ) -> Box<dyn Iterator<Item = Values> + Send> {
        let (customers, items) = (self.scale.customers, self.scale.items);
        let districts = warehouses
            .clone()
            .flat_map(|warehouse| (1..=DISTRICTS).map(move |district| (warehouse, district)));
        match table.name {
            "warehouse" => Box::new(warehouses.map(move |w| self.warehouse(w))),
            "district" => Box::new(districts.map(move |(w, d)| self.district(w, d))),
            "customer" => Box::new(
                districts.flat_map(move |(w, d)| (1..=customers).map(move |c| self.customer(w, d, c))),
            ),
            "history" => Box::new(
                districts.flat_map(move |(w, d)| (1..=customers).map(move |c| self.history(w, d, c))),
            ),
            "orders" => Box::new(districts.flat_map(move |(w, d)| {
                let ordered_by = self.customers_of_orders(w, d);
                (1..=customers).map(move |o| self.order(w, d, o, ordered_by[o as usize - 1]))
            })),
            "new_order" => Box::new(districts.flat_map(move |(w, d)| {
                (self.first_new_order()..=customers).map(move |o| new_order_row(w, d, o))
            })),
            "order_line" => Box::new(districts.flat_map(move |(w, d)| {
                (1..=customers).flat_map(move |o| {
                    (1..=self.lines_of(w, d, o)).map(move |number| self.order_line(w, d, o, number))
                })
            })),
            "item" => {
                Box::new((1..=items).filter(move |_| warehouses.contains(&1)).map(move |i| self.item(i)))
            }
            "stock" => Box::new(warehouses.flat_map(move |w| (1..=items).map(move |i| self.stock(w, i)))),
            other => unreachable!("{other} is no table of DBT-2"),
        }
    }

    /// The first order that is not delivered.
    fn first_new_order(&self) -> u32 {
        self.scale.customers - self.scale.undelivered() + 1
    }

    fn random(&self, of: Purpose, row: u64) -> Random {
        stream(self.seed, purpose(of, row))
    }

    fn warehouse(&self, w: u32) -> Values {
        let random = &mut self.random(Purpose::Warehouse, w.into());
        let mut row = vec![w.into(), letters(random, 6, 10).into()];
        row.extend(address(random));
        row.extend([tax(random), (DISTRICT_YTD * i64::from(DISTRICTS)).into()]);
        debug_assert_eq!(row.len(), warehouse::TABLE.columns.len());
        row
    }

    fn district(&self, w: u32, d: u32) -> Values {
        let random = &mut self.random(Purpose::District, number(w, d, 0));
        let mut row = vec![w.into(), d.into(), letters(random, 6, 10).into()];
        row.extend(address(random));
        row.extend([tax(random), DISTRICT_YTD.into(), (self.scale.customers + 1).into()]);
        debug_assert_eq!(row.len(), district::TABLE.columns.len());
        row
    }

    fn customer(&self, w: u32, d: u32, c: u32) -> Values {
        let random = &mut self.random(Purpose::Customer, number(w, d, c));
        let last = self.constants.last_name_of(random, c);
        let mut row =
            vec![w.into(), d.into(), c.into(), letters(random, 8, 16).into(), "OE".into(), last.into()];
        row.extend(address(random));
        row.extend([
            digits(random, 16).into(),
            LOADED_AT.into(),
            if percent(random, 10) { BAD_CREDIT } else { "GC" }.into(),
            5_000_000_i64.into(),
            between(random, 0, 5_000).into(),
            (-1_000_i64).into(),
            1_000_i64.into(),
            1_u32.into(),
            0_u32.into(),
            letters(random, 300, 500).into(),
        ]);
        debug_assert_eq!(row.len(), customer::TABLE.columns.len());
        row
    }

    fn history(&self, w: u32, d: u32, c: u32) -> Values {
        let random = &mut self.random(Purpose::History, number(w, d, c));
        let row = vec![
            Value::Null,
            c.into(),
            d.into(),
            w.into(),
            d.into(),
            w.into(),
            LOADED_AT.into(),
            1_000_i64.into(),
            letters(random, 12, 24).into(),
        ];
        debug_assert_eq!(row.len(), history::TABLE.columns.len());
        row
    }

    /// The customers of a district in the order of their orders: each has one.
    fn customers_of_orders(&self, w: u32, d: u32) -> Vec<u32> {
        let random = &mut self.random(Purpose::CustomersOfOrders, number(w, d, 0));
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        for place in (1..customers.len()).rev() {
            customers.swap(place, random.below(place as u64 + 1) as usize);
        }
        customers
    }

    fn lines_of(&self, w: u32, d: u32, o: u32) -> u32 {
        between(&mut self.random(Purpose::Order, number(w, d, o)), LINES.0, LINES.1)
    }

    fn order(&self, w: u32, d: u32, o: u32, customer: u32) -> Values {
        let random = &mut self.random(Purpose::Order, number(w, d, o));
        // The first number of the stream, as in `lines_of`.
        let lines = between(random, LINES.0, LINES.1);
        let carrier = (o < self.first_new_order()).then(|| between(random, 1, 10));
        let row = vec![
            w.into(),
            d.into(),
            o.into(),
            customer.into(),
            LOADED_AT.into(),
            carrier.into(),
            lines.into(),
            1_u32.into(),
        ];
        debug_assert_eq!(row.len(), orders::TABLE.columns.len());
        row
    }

    fn order_line(&self, w: u32, d: u32, o: u32, line: u32) -> Values {
        let random = &mut self.random(Purpose::OrderLine, number(w, d, o) << 4 | u64::from(line));
        let is_delivered = o < self.first_new_order();
        let cents = if is_delivered { 0 } else { i64::from(between(random, 1, 999_999)) };
        let row = vec![
            w.into(),
            d.into(),
            o.into(),
            line.into(),
            between(random, 1, self.scale.items).into(),
            w.into(),
            is_delivered.then_some(LOADED_AT).into(),
            5_u32.into(),
            cents.into(),
            letters(random, 24, 24).into(),
        ];
        debug_assert_eq!(row.len(), order_line::TABLE.columns.len());
        row
    }

    fn item(&self, i: u32) -> Values {
        let random = &mut self.random(Purpose::Item, i.into());
        let row = vec![
            i.into(),
            between(random, 1, 10_000).into(),
            letters(random, 14, 24).into(),
            i64::from(between(random, 100, 10_000)).into(),
            data(random, 26, 50).into(),
        ];
        debug_assert_eq!(row.len(), item::TABLE.columns.len());
        row
    }

    fn stock(&self, w: u32, i: u32) -> Values {
        let random = &mut self.random(Purpose::Stock, u64::from(w) << 32 | u64::from(i));
        let mut row = vec![w.into(), i.into(), between(random, 10, 100).into()];
        row.extend((0..DISTRICTS).map(|_| Value::from(letters(random, 24, 24))));
        row.extend([0_u32.into(), 0_u32.into(), 0_u32.into(), data(random, 26, 50).into()]);
        debug_assert_eq!(row.len(), stock::TABLE.columns.len());
        row
    }
}

/// The credit of a customer whose payments are noted in its data.
pub(crate) const BAD_CREDIT: &str = "BC";

fn new_order_row(w: u32, d: u32, o: u32) -> Values {
    let row = vec![w.into(), d.into(), o.into()];
    debug_assert_eq!(row.len(), new_order::TABLE.columns.len());
    row
}

/// The number of a row of a district: at most 2^24 warehouses of 2^24 rows a district. Four more bits are left.
fn number(w: u32, d: u32, row: u32) -> u64 {
    (u64::from(w) * u64::from(DISTRICTS) + u64::from(d)) << 24 | u64::from(row)
}

/// Two streets, a city, a state and a ZIP code.
fn address(random: &mut Random) -> [Value; 5] {
    [
        letters(random, 10, 20).into(),
        letters(random, 10, 20).into(),
        letters(random, 10, 20).into(),
        letters(random, 2, 2).into(),
        format!("{}11111", digits(random, 4)).into(),
    ]
}

fn tax(random: &mut Random) -> Value {
    between(random, 0, 2_000).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::schema::TABLES;
    use super::*;
    use crate::measure::definition::Kind;

    #[test]
    fn every_row_fits_its_columns_and_tables_are_sorted() {
        let population = Population::new(Scale::small(2), 1);
        let mut rows = 0;
        for table in TABLES {
            let schema = table.schema().unwrap();
            let mut before = Vec::new();
            for row in population.rows(&table) {
                for (column, value) in table.columns.iter().zip(&row) {
                    if let (Kind::Text(most), Some(text)) = (column.kind, value.as_ref().as_text()) {
                        assert!(text.len() <= most.into(), "{}: {text}", column.name);
                    }
                    let is_allowed = column.is_nullable || column.kind == Kind::Numbered;
                    assert!(!value.is_null() || is_allowed, "{}", column.name);
                }
                rows += 1;
                // What the table numbers is NULL still.
                if table.name != "history" {
                    let (key, _) = schema.encode(&row).unwrap();
                    assert!(key > before, "{}", table.name);
                    before = key;
                }
            }
        }
        // Lines are random.
        let expected = population.scale.rows();
        assert!(rows * 20 > expected * 19 && rows * 20 < expected * 21, "{rows} {expected}");
    }

    #[test]
    fn every_customer_has_an_order() {
        let population = Population::new(Scale::small(1), 1);
        let customers: BTreeSet<u32> = population.customers_of_orders(1, 3).into_iter().collect();
        assert_eq!(customers, (1..=60).collect());
    }

    #[test]
    fn parts_are_the_whole() {
        let population = Population::new(Scale::small(3), 1);
        for table in TABLES {
            let parts = (1..=3).flat_map(|w| population.rows_of(&table, w..=w));
            assert!(parts.eq(population.rows(&table)), "{}", table.name);
        }
    }
}
