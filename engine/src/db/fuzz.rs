//! Arbitrary rows of the catalog, and rows of the tables that they describe.

use super::catalog::{Entry, Kind};
use super::definition::{Definition, Typed};
use crate::fuzz::input::Input;
use crate::page::PageNo;
use crate::row::{Column, ColumnType, Index, RowView, Schema, asc, desc};

/// Decodes a row of the catalog. If it describes a typed table, the rest of the input is decoded as its rows and index
/// entries. Lengths come first, each a byte; the checksum of the value is corrected if the value is a schema.
pub fn catalog(data: &[u8]) {
    let mut input = Input(data);
    let (key_bytes, value_bytes) = (input.byte(), usize::from(input.byte()) | usize::from(input.byte()) << 8);
    let key = input.take(key_bytes.into());
    let mut value = input.take(value_bytes).to_vec();
    fit_checksum(&mut value);
    let Ok(Entry::Table { definition, .. }) = Entry::decode(key, &value) else { return };
    assert_eq!(definition.encode(), value);
    let Some(Typed { schema, .. }) = &definition.typed else { return };
    assert_eq!(Schema::from_bytes(&schema.to_bytes()).as_ref(), Ok(schema));
    while !input.0.is_empty() {
        let (key_bytes, row_bytes) = (input.byte(), input.byte());
        let (key, row) = (input.take(key_bytes.into()), input.take(row_bytes.into()));
        read(schema, key, row);
    }
}

fn read(schema: &Schema, key: &[u8], row: &[u8]) {
    let decoded = schema.decode(key, row);
    for column in schema.columns() {
        let got = schema.get(column.name(), key, row);
        assert!(got.is_ok() || decoded.is_err(), "{}: {got:?}", column.name());
    }
    let view = RowView::new(schema, key, row);
    assert!(view.is_ok_and(|view| view.values().is_ok()) || decoded.is_err());
    for index in schema.indexes() {
        // The same bytes as an entry of it.
        let _ = (index.primary_key(key), index.unique_part(key));
        let mut entry = Vec::new();
        if let Ok(row) = schema.row().open(row)
            && index.entry_of(key, &row, &mut entry).is_ok()
            && decoded.is_ok()
        {
            assert_eq!(index.primary_key(&entry).as_deref(), Ok(key));
        }
    }
    if let Ok(values) = decoded {
        let (key_again, row_again) = schema.encode(values.as_slice()).expect("they were read from a row");
        assert_eq!(key_again, key);
        assert_eq!(schema.decode(&key_again, &row_again), Ok(values));
    }
}

fn fit_checksum(definition: &mut [u8]) {
    let indexes = definition.get(9..11).map_or(0, |count| u16::from_le_bytes([count[0], count[1]]));
    let Some(schema) = definition.get_mut(11 + 8 * usize::from(indexes)..) else { return };
    if let Some((body, stored)) = schema.split_last_chunk_mut::<4>() {
        *stored = crc32c::crc32c(body).to_le_bytes();
    }
}

/// A typed table with rows, a plain one, a tree.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let schema = Schema::builder()
        .column(Column::new("id", ColumnType::U64))
        .column(Column::new("name", ColumnType::Text).nullable())
        .column(Column::new("height", ColumnType::F64))
        .primary_key([asc("id")])
        .index(Index::new("by_name", [desc("name")]))
        .index(Index::unique("by_height", ["height"]))
        .build()
        .expect("a schema");
    let (key, row) = schema.encode((7_u64, "seven", 1.5)).expect("a row");
    let typed = Typed { schema, indexes: vec![PageNo(8), PageNo(9)] };
    let typed = Definition { root: PageNo(7), typed: Some(typed) }.encode();
    let plain = Definition { root: PageNo(7), typed: None }.encode();
    let seed = |kind: Kind, value: &[u8], rows: &[&[u8]]| {
        let mut seed = vec![5, value.len() as u8, (value.len() >> 8) as u8, kind as u8];
        seed.extend_from_slice(b"name");
        seed.extend_from_slice(value);
        rows.chunks(2).for_each(|row| seed.extend(row.iter().map(|part| part.len() as u8)));
        rows.iter().for_each(|part| seed.extend_from_slice(part));
        seed
    };
    vec![
        seed(Kind::Table, &typed, &[&key, &row]),
        seed(Kind::Table, &plain, &[]),
        seed(Kind::Tree, &7_u64.to_le_bytes(), &[]),
    ]
}
