//! The rows as loaded. (seed, table, key) determines each row.

use std::ops::RangeInclusive;

use flifo_engine::row::Value;

use super::schema::{history, object};
use crate::measure::definition::{TableDefinition, Values};
use crate::measure::engine::data_set::Rows;
use crate::measure::workload::{Random, stream};

/// Rows of an object's history.
pub const HISTORY_ROWS: u32 = 20;
/// States that a row of a history may have.
pub(crate) const STATS: u32 = 1_000;
const SECTIONS: u32 = 100;
const ZONES: u32 = 10;

/// A data set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Population {
    pub(crate) objects: u32,
    pub(crate) seed: u64,
}

/// The key of an object.
pub(crate) fn object_ref(object: u32) -> String {
    format!("{object:010}")
}

/// The key of a state, from 1.
pub(crate) fn stat_ref(stat: u32) -> String {
    format!("{:03}", stat - 1)
}

/// The key of a section or a zone, from 1.
fn short_ref(number: u32) -> String {
    format!("{:02}", number - 1)
}

impl Population {
    /// All rows of all tables.
    pub(crate) fn rows_total(&self) -> u64 {
        u64::from(self.objects) * u64::from(1 + HISTORY_ROWS) + u64::from(STATS + SECTIONS + ZONES)
    }

    /// All rows of a table, in the order of its primary key.
    pub(crate) fn rows(self, table: &TableDefinition) -> Rows {
        self.rows_of(table, 1..=self.objects)
    }

    /// The rows of some objects; tables without objects belong to the first.
    pub(crate) fn rows_of(self, table: &TableDefinition, objects: RangeInclusive<u32>) -> Rows {
        let with_first = |count: u32| 1..=if objects.contains(&1) { count } else { 0 };
        match table.name {
            "zone" => {
                Box::new(with_first(ZONES).map(|zone| vec![short_ref(zone).into(), name("zone", zone)]))
            }
            "section" => Box::new(with_first(SECTIONS).map(|section| {
                let zone = short_ref(1 + section % ZONES);
                vec![short_ref(section).into(), zone.into(), name("section", section)]
            })),
            "stat" => Box::new(
                with_first(STATS).map(|stat| vec![stat_ref(stat).into(), name("stat", stat), stat.into()]),
            ),
            "object" => Box::new(objects.map(move |object| self.object(object))),
            "history" => {
                Box::new(objects.flat_map(move |object| {
                    (1..=HISTORY_ROWS).map(move |horder| self.history(object, horder))
                }))
            }
            other => unreachable!("{other} is no table of db-stress"),
        }
    }

    fn object(&self, object: u32) -> Values {
        let random = &mut stream(self.seed, 1 << 40 | u64::from(object));
        let section = short_ref(random.one_to(SECTIONS));
        let row =
            vec![object_ref(object).into(), section.into(), name("object", object), text(random, 100).into()];
        debug_assert_eq!(row.len(), object::TABLE.columns.len());
        row
    }

    fn history(&self, object: u32, horder: u32) -> Values {
        let random = &mut stream(self.seed, u64::from(object) << 8 | u64::from(horder));
        let row = history_row(random, object, horder);
        debug_assert_eq!(row.len(), history::TABLE.columns.len());
        row
    }
}

/// A row of a history with random contents.
pub(crate) fn history_row(random: &mut Random, object: u32, horder: u32) -> Values {
    vec![
        Value::Null,
        object_ref(object).into(),
        horder.into(),
        stat_ref(random.one_to(STATS)).into(),
        date(random).into(),
        date(random).into(),
        text(random, 100).into(),
    ]
}

/// Twelve digits.
pub(crate) fn date(random: &mut Random) -> String {
    format!("{:012}", random.below(1_000_000_000_000))
}

/// Lower-case letters.
pub(crate) fn text(random: &mut Random, length: usize) -> String {
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bits = random.next_u64();
        for _ in 0..10.min(length - text.len()) {
            // The six lower bits, scaled to the alphabet.
            text.push(char::from(b'a' + (((bits & 0x3f) * 26) >> 6) as u8));
            bits >>= 6;
        }
    }
    text
}

fn name(of: &str, number: u32) -> Value {
    format!("{of} {number}").into()
}

#[cfg(test)]
mod tests {
    use super::super::schema::TABLES;
    use super::*;
    use crate::measure::definition::Kind;

    #[test]
    fn every_row_fits_its_columns_and_tables_are_sorted() {
        let population = Population { objects: 30, seed: 1 };
        let mut rows = 0;
        for table in TABLES {
            let (schema, mut before) = (table.schema().unwrap(), Vec::new());
            for row in population.rows(&table) {
                for (column, value) in table.columns.iter().zip(&row) {
                    if let (Kind::Text(most), Some(text)) = (column.kind, value.as_ref().as_text()) {
                        assert!(text.len() <= most.into(), "{}: {text}", column.name);
                    }
                }
                if table.name != "history" {
                    let (key, _) = schema.encode(&row).unwrap();
                    assert!(key > before, "{}", table.name);
                    before = key;
                }
                rows += 1;
            }
        }
        assert_eq!(rows, population.rows_total());
    }

    #[test]
    fn parts_are_the_whole() {
        let population = Population { objects: 30, seed: 1 };
        for table in TABLES {
            let parts = [1..=11, 12..=30].into_iter().flat_map(|part| population.rows_of(&table, part));
            assert!(parts.eq(population.rows(&table)), "{}", table.name);
        }
    }
}
