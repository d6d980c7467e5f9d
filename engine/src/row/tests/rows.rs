use proptest::sample::select;

use super::*;

fn column() -> impl Strategy<Value = Column> {
    (kind(), any::<bool>()).prop_map(|(kind, nullable)| {
        let column = Column::new("c", kind);
        if nullable { column.nullable() } else { column }
    })
}

/// Columns, and a value for each.
fn row() -> impl Strategy<Value = (Vec<Column>, Vec<Value>)> {
    proptest::collection::vec(column(), 0..20).prop_flat_map(|columns| {
        let values: Vec<_> =
            columns.iter().map(|column| value(column.kind(), column.is_nullable())).collect();
        (Just(columns), values)
    })
}

/// Bit for bit, where `==` would let -0.0 pass for 0.0.
fn same(a: ValueRef<'_>, b: ValueRef<'_>) -> bool {
    match (a, b) {
        (ValueRef::Float(a), ValueRef::Float(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

fn check_any(format: &RowFormat, bytes: &[u8]) {
    let Ok(row) = format.open(bytes) else {
        return;
    };
    for column in 0..=format.columns().len() {
        let _ = row.get(column);
    }
    let written = RowFormat::new(format.columns()[..row.columns_written()].to_vec()).unwrap();
    if row.check().is_ok() {
        assert_eq!(written.encode(&row.values().unwrap()[..row.columns_written()]).unwrap(), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_read_back((columns, values) in row()) {
        let format = RowFormat::new(columns).unwrap();
        let bytes = format.encode(&values).unwrap();
        let row = format.open(&bytes).unwrap();
        row.check().unwrap();
        for (column, value) in values.iter().enumerate() {
            prop_assert!(same(row.get(column).unwrap(), value.as_ref()), "{:?}", value);
        }
        prop_assert!(row.get(values.len()).is_err());
    }

    #[test]
    fn columns_added_later_are_null_or_have_their_defaults(
        (mut columns, values) in row(),
        (added, defaults) in row(),
    ) {
        let bytes = RowFormat::new(columns.clone()).unwrap().encode(&values).unwrap();
        for (column, default) in added.into_iter().zip(&defaults) {
            columns.push(if default.is_null() { column } else { column.default_value(default.clone()) });
        }
        let format = RowFormat::new(columns).unwrap();
        let row = format.open(&bytes).unwrap();
        row.check().unwrap();
        prop_assert_eq!(row.columns_written(), values.len());
        let all: Vec<Value> = values.into_iter().chain(defaults).collect();
        prop_assert_eq!(row.values().unwrap(), all.iter().map(Value::as_ref).collect::<Vec<_>>());
    }

    #[test]
    fn damaged_rows_are_read_or_refused((columns, values) in row(), (flips, resize) in damages()) {
        let format = RowFormat::new(columns).unwrap();
        check_any(&format, &damage(format.encode(&values).unwrap(), &flips, resize));
    }

    #[test]
    fn random_bytes_are_read_or_refused(
        columns in proptest::collection::vec(column(), 0..20),
        header in (0..3_u8, select(vec![0, 1, 2, 3, 4, 255]), 0..20_u8),
        rest in proptest::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..60),
    ) {
        let format = RowFormat::new(columns).unwrap();
        check_any(&format, &[&[header.0, header.1, header.2, 0], &rest[..]].concat());
        check_any(&format, &rest);
    }
}

/// The example in docs/format.md.
#[test]
fn a_row_is_as_it_is_drawn() {
    let columns = vec![
        Column::new("town", ColumnType::Text),
        Column::new("born", ColumnType::I32).nullable(),
        Column::new("visits", ColumnType::U16),
        Column::new("mail", ColumnType::Text).nullable(),
    ];
    let format = RowFormat::new(columns).unwrap();
    let row = format.encode(("Oslo", None::<i32>, 300, "a@b.c")).unwrap();
    assert_eq!(row, b"\x01\x01\x04\x00\x02\0\0\0\0\x2c\x01\x04\x09Osloa@b.c");
}

#[test]
fn ends_are_as_wide_as_they_must_be() {
    let format =
        RowFormat::new(vec![Column::new("a", ColumnType::Bytes), Column::new("b", ColumnType::Bytes)]);
    let format = format.unwrap();
    for (bytes, width) in [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4), (100_000, 4)] {
        let a = vec![7; bytes];
        let row = format.encode((&a, b"")).unwrap();
        assert_eq!((row.len(), row[1]), (5 + 2 * usize::from(width) + bytes, width));
        let row = format.open(&row).unwrap();
        row.check().unwrap();
        assert_eq!(
            (row.get(0).unwrap().as_bytes(), row.get(1).unwrap().as_bytes()),
            (Some(&a[..]), Some(&b""[..]))
        );
    }
}

#[test]
fn a_row_without_columns_is_a_header() {
    let format = RowFormat::new(Vec::new()).unwrap();
    assert_eq!(format.encode(()).unwrap(), [1, 1, 0, 0]);
    assert_eq!(format.open(&[1, 1, 0, 0]).unwrap().values().unwrap(), []);
}

#[test]
fn what_no_row_has_is_refused() {
    let columns = vec![Column::new("n", ColumnType::U16).nullable(), Column::new("t", ColumnType::Text)];
    let format = RowFormat::new(columns).unwrap();
    let row = format.encode((7, "é")).unwrap();
    assert_eq!(row, [1, 1, 2, 0, 0, 7, 0, 2, 0xc3, 0xa9]);
    let with = |at: usize, byte: u8| {
        let mut row = row.clone();
        row[at] = byte;
        let read = format.open(&row).and_then(|row| row.check());
        read.unwrap_err().to_string()
    };
    assert!(with(0, 2).contains("version 2, this program supports 1"));
    assert!(with(1, 2).contains("corrupt"));
    assert!(with(2, 3).contains("has 3 columns, its schema 2"));
    assert!(with(2, 1).contains("corrupt"));
    assert!(with(4, 1).contains("bytes are in use that no column has"), "NULL, and a value");
    assert!(with(4, 2).contains("not nullable"));
    assert!(with(4, 4).contains("NULL that it does not have"));
    assert!(with(7, 3).contains("does not end where the row does"));
    assert!(with(8, 0xff).contains("not UTF-8"));
    let old = RowFormat::new(Vec::new()).unwrap().encode(()).unwrap();
    assert!(format.open(&old).unwrap().get(1).unwrap_err().to_string().contains("no default"));
    for short in 0..row.len() {
        assert!(format.open(&row[..short]).is_err());
    }
}

#[test]
fn ends_that_no_row_has_are_refused() {
    let column = |name| Column::new(name, ColumnType::Text);
    let format = RowFormat::new(vec![column("a"), column("b"), column("c")]).unwrap();
    assert_eq!(format.encode(("a", "b", "c")).unwrap(), b"\x01\x01\x03\0\0\x01\x02\x03abc");
    let wide = format.open(b"\x01\x02\x03\0\0\x01\0\x02\0\x03\0abc").unwrap_err();
    assert!(wide.to_string().contains("at byte 1: ends of this width"));
    assert!(format.open(b"\x01\0\x03\0\0").is_err());
    let backwards = b"\x01\x01\x03\0\0\x02\x01\x03abc";
    let row = format.open(backwards).unwrap();
    assert_eq!((row.get(0), row.get(2)), (Ok("ab".into()), Ok("bc".into())));
    assert!(row.get(1).unwrap_err().to_string().contains("end is out of bounds"));
    let beyond = b"\x01\x01\x03\0\0\x01\x09\x03abc";
    let row = format.open(beyond).unwrap();
    assert!(row.get(1).is_err() && row.get(2).is_err() && row.check().is_err());
}

#[test]
fn what_fails_appends_nothing() {
    let format =
        RowFormat::new(vec![Column::new("a", ColumnType::Text), Column::new("b", ColumnType::U8)]).unwrap();
    let mut row = b"before".to_vec();
    assert!(format.encode_into(("text", 256), &mut row).is_err());
    assert!(format.encode_into((None::<&str>, 1), &mut row).is_err());
    assert_eq!(row, b"before");
    format.encode_into(("text", 1), &mut row).unwrap();
    assert_eq!(format.open(&row[6..]).unwrap().get(0).unwrap(), "text".into());
}
