use proptest::sample::{Index as Pick, select, subsequence};

use super::*;

fn reseal(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn column(name: String) -> impl Strategy<Value = Column> {
    (kind(), any::<bool>()).prop_flat_map(move |(kind, nullable)| {
        let column = Column::new(name.clone(), kind);
        let column = if nullable { column.nullable() } else { column };
        proptest::option::of(value(kind, nullable)).prop_map(move |default| match default {
            Some(default) => column.clone().default_value(default),
            None => column.clone(),
        })
    })
}

/// Some of the columns, in any order, each in any direction.
fn key(columns: usize, least: usize) -> impl Strategy<Value = Vec<KeyColumn>> {
    subsequence((0..columns).collect::<Vec<_>>(), least..=columns).prop_shuffle().prop_flat_map(|columns| {
        let column = |at: usize| {
            any::<bool>().prop_map(move |up| if up { asc(format!("c{at}")) } else { desc(format!("c{at}")) })
        };
        columns.into_iter().map(column).collect::<Vec<_>>()
    })
}

fn schema() -> impl Strategy<Value = Schema> {
    (1..7_usize)
        .prop_flat_map(|count| {
            let columns: Vec<_> = (0..count).map(|at| column(format!("c{at}"))).collect();
            let indexes = proptest::collection::vec((key(count, 1), any::<bool>()), 0..4);
            (columns, key(count, 1), indexes)
        })
        .prop_map(|(columns, primary, indexes)| {
            let mut builder = Schema::builder();
            for column in columns {
                let in_key = primary.iter().any(|key| key.name == column.name());
                // The columns of the primary key are never NULL.
                let column = if in_key { Column::new(column.name(), column.kind()) } else { column };
                builder = builder.column(column);
            }
            for (at, (columns, unique)) in indexes.into_iter().enumerate() {
                let index = Index::new(format!("i{at}"), columns);
                builder = builder.index(Index { unique, ..index });
            }
            builder.primary_key(primary).build().unwrap()
        })
}

fn row(schema: &Schema) -> Vec<BoxedStrategy<Value>> {
    schema.columns().iter().map(|column| value(column.kind(), column.is_nullable())).collect()
}

fn schema_and_rows() -> impl Strategy<Value = (Schema, Vec<Vec<Value>>)> {
    schema().prop_flat_map(|schema| {
        let rows = proptest::collection::vec(row(&schema), 1..6);
        (Just(schema), rows)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn schemas_are_read_back(schema in schema()) {
        prop_assert_eq!(Schema::from_bytes(&schema.to_bytes()), Ok(schema));
    }

    #[test]
    fn every_damage_to_a_schema_is_noticed(schema in schema(), (flips, resize) in damages()) {
        let bytes = schema.to_bytes();
        let damaged = damage(bytes.clone(), &flips, resize);
        prop_assert!(damaged == bytes || Schema::from_bytes(&damaged).is_err());
    }

    /// With a checksum that fits, a schema that is read back is one that could have been written.
    #[test]
    fn resealed_schemas_are_read_or_refused(schema in schema(), (flips, resize) in damages()) {
        let bytes = schema.to_bytes();
        let damaged = reseal(damage(bytes[..bytes.len() - 4].to_vec(), &flips, resize));
        if let Ok(read) = Schema::from_bytes(&damaged) {
            prop_assert_eq!(read.to_bytes(), damaged);
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(prop_oneof![0..4_u8, any::<u8>()], 0..40),
    ) {
        let _ = Schema::from_bytes(&bytes);
        let _ = Schema::from_bytes(&reseal([&[1], &bytes[..]].concat()));
    }

    #[test]
    fn rows_are_read_back((schema, rows) in schema_and_rows()) {
        for values in &rows {
            let (key, row) = schema.encode(values).unwrap();
            prop_assert_eq!(&schema.decode(&key, &row).unwrap(), values);
            for (column, value) in schema.columns().iter().zip(values) {
                prop_assert_eq!(&schema.get(column.name(), &key, &row).unwrap(), value);
            }
        }
    }

    #[test]
    fn index_entries_lead_to_their_rows_and_tell_equal_ones((schema, rows) in schema_and_rows()) {
        for index in schema.indexes() {
            let parts = index.definition().columns.len();
            let columns = &index.columns()[..parts];
            for values in &rows {
                let (key, _) = schema.encode(values).unwrap();
                let entry = index.encode(values).unwrap();
                prop_assert_eq!(index.primary_key(&entry).unwrap(), key);
                let indexed: Vec<Value> = index.columns().iter().map(|&at| values[at].clone()).collect();
                prop_assert_eq!(&index.key().decode(&entry).unwrap(), &indexed);
                let unique_part = index.unique_part(&entry).unwrap();
                prop_assert_eq!(unique_part.is_none(), indexed[..parts].iter().any(Value::is_null));
                for other in &rows {
                    let equal = columns.iter().all(|&at| values[at] == other[at]);
                    let other = index.encode(other).unwrap();
                    prop_assert!(unique_part.is_none_or(|part| other.starts_with(part) == equal));
                }
            }
        }
    }

    #[test]
    fn damaged_rows_and_entries_are_read_or_refused(
        (schema, rows) in schema_and_rows(),
        (flips, resize) in damages(),
        in_key in any::<bool>(),
        index in any::<Pick>(),
    ) {
        let (key, row) = schema.encode(&rows[0]).unwrap();
        let damaged = damage(if in_key { key.clone() } else { row.clone() }, &flips, resize);
        let (key, row) = if in_key { (damaged, row) } else { (key, damaged) };
        let _ = schema.decode(&key, &row);
        for column in schema.columns() {
            let _ = schema.get(column.name(), &key, &row);
        }
        if !schema.indexes().is_empty() {
            let index = index.get(schema.indexes());
            let entry = damage(index.encode(&rows[0]).unwrap(), &flips, resize);
            let _ = (index.primary_key(&entry), index.unique_part(&entry));
        }
    }

    #[test]
    fn a_column_more_keeps_rows_and_entries(
        (schema, rows) in schema_and_rows(),
        added in column("added".into()),
        unique in select(vec![false, true]),
    ) {
        let value = added.missing().map(ValueRef::to_value);
        let Ok(grown) = schema.with_column(added) else {
            prop_assert!(value.is_none());
            return Ok(());
        };
        let value = value.unwrap();
        let index = Index { unique, ..Index::new("more", ["added"]) };
        let grown = grown.with_index(index).unwrap();
        for values in &rows {
            let (key, row) = schema.encode(values).unwrap();
            let mut more = values.clone();
            more.push(value.clone());
            prop_assert_eq!(&grown.decode(&key, &row).unwrap(), &more);
            prop_assert_eq!(&grown.encode(&more).unwrap().0, &key);
            for index in schema.indexes() {
                let same = grown.index(&index.definition().name).unwrap();
                prop_assert_eq!(same.encode(&more).unwrap(), index.encode(values).unwrap());
            }
        }
        prop_assert_eq!(grown.without_index("more").unwrap().indexes().len(), schema.indexes().len());
    }
}

fn people() -> Schema {
    Schema::builder()
        .column(Column::new("id", ColumnType::U64))
        .column(Column::new("town", ColumnType::Text))
        .column(Column::new("born", ColumnType::I32).nullable())
        .column(Column::new("visits", ColumnType::U16).default_value(5))
        .primary_key(["id"])
        .index(Index::new("by_town", [asc("town"), desc("born")]))
        .index(Index::unique("id_down", [desc("id")]))
        .build()
        .unwrap()
}

/// The example in docs/format.md.
#[test]
fn a_schema_is_as_it_is_drawn() {
    let drawn = b"\x01\
        \x04\x00\x02id\x04\x00\x04town\x0c\x00\x04born\x07\x01\x06visits\x02\x02\x00\x05\
        \x01\x00\x00\x00\x00\
        \x02\x00\x07by_town\x00\x02\x00\x01\x00\x00\x02\x00\x01\
        \x07id_down\x01\x01\x00\x00\x00\x01";
    assert_eq!(people().to_bytes(), reseal(drawn.to_vec()));
}

#[test]
fn entries_are_as_they_are_drawn() {
    let people = people();
    let row = (7, "Oslo", 1984, 3);
    let (key, value) = people.encode(row).unwrap();
    assert_eq!(key, [0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(value, b"\x01\x01\x03\x00\x00\xc0\x07\0\0\x03\x00\x04Oslo");
    let by_town = people.index("by_town").unwrap();
    let entry = by_town.encode(row).unwrap();
    assert_eq!(entry, b"Oslo\0\xfe\x7f\xff\xf8\x3f\0\0\0\0\0\0\0\x07");
    assert_eq!(by_town.unique_part(&entry).unwrap(), Some(&b"Oslo\0\xfe\x7f\xff\xf8\x3f"[..]));
    // The key is in the index the other way round.
    let down = people.index("id_down").unwrap();
    let entry = down.encode(row).unwrap();
    assert_eq!(entry, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8]);
    assert_eq!(down.primary_key(&entry).unwrap(), key);
}

#[test]
fn places_say_where_to_read() {
    let people = people();
    let (key, row) = people.encode((7, "Oslo", None::<i32>, 3)).unwrap();
    assert_eq!((people.place("id"), people.place("born")), (Ok(Place::Key(0)), Ok(Place::Row(1))));
    assert_eq!(people.key().get(0, &key), Ok(7.into()));
    assert!(people.row().open(&row).unwrap().get(1).unwrap().is_null());
}

#[test]
fn another_version_is_told_from_damage() {
    let mut bytes = people().to_bytes();
    bytes.truncate(bytes.len() - 4);
    bytes[0] = 2;
    let error = Schema::from_bytes(&reseal(bytes)).unwrap_err();
    assert_eq!(error, RowError::Version { of: "the schema", found: 2, supported: 1 });
}
