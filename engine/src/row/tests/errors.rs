use super::*;

fn table() -> SchemaBuilder {
    Schema::builder()
        .column(Column::new("id", ColumnType::U64))
        .column(Column::new("age", ColumnType::U8))
        .column(Column::new("name", ColumnType::Text).nullable())
}

fn refused(builder: SchemaBuilder) -> String {
    said(builder.build())
}

fn said<T: std::fmt::Debug>(result: Result<T, RowError>) -> String {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'));
    assert_eq!(crate::Error::from(error).to_string(), text);
    text
}

#[test]
fn a_schema_that_cannot_be_says_why() {
    let cases = [
        (table(), "the table has no primary key; name the columns that tell its rows apart"),
        (
            table().column(Column::new("age", ColumnType::Bool)).primary_key(["id"]),
            "there are two columns 'age'; rename one",
        ),
        (
            table().primary_key(["id", "nmae"]),
            "the primary key names a column 'nmae', which the table does not have; add it, or check the name",
        ),
        (
            table().primary_key([asc("id"), desc("id")]),
            "the primary key has the column 'id' twice; name it once",
        ),
        (
            table().primary_key(["id", "name"]),
            "the column 'name' is in the primary key and nullable; make it not nullable, or use another key",
        ),
        (
            table().primary_key(["id"]).index(Index::new("i", ["x"])),
            "the index 'i' names a column 'x', which the table does not have; add it, or check the name",
        ),
        (
            table().primary_key(["id"]).index(Index::new("i", ["age", "age"])),
            "the index 'i' has the column 'age' twice; name it once",
        ),
        (
            table().primary_key(["id"]).index(Index::new("i", [""; 0])),
            "the index 'i' has no columns; name at least one",
        ),
        (
            table().primary_key(["id"]).index(Index::new("i", ["age"])).index(Index::new("i", ["name"])),
            "there are two indexes 'i'; rename one",
        ),
        (
            table().primary_key(["id"]).column(Column::new("", ColumnType::U8)),
            "a column name of 0 bytes is not allowed; use 1 to 200 bytes",
        ),
        (
            table().primary_key(["id"]).index(Index::new("i".repeat(201), ["age"])),
            "an index name of 201 bytes is not allowed; use 1 to 200 bytes",
        ),
        (
            table().primary_key(["id"]).column(Column::new("c", ColumnType::U8).default_value(256)),
            "256 is out of range for the column 'c', which takes u8: 0 to 255; use a wider type",
        ),
        (
            table().primary_key(["id"]).column(Column::new("c", ColumnType::U8).default_value(None::<u8>)),
            "the column 'c' is not nullable; give it a value, or declare it nullable",
        ),
        (
            table()
                .primary_key(["id"])
                .column(Column::new("c", ColumnType::Text).default_value("x".repeat(KEY_BYTES_MAX))),
            "the default of the column 'c' has 3073 bytes, at most 3072 are allowed; use fewer",
        ),
    ];
    for (builder, expected) in cases {
        assert_eq!(refused(builder), expected);
    }
}

#[test]
fn too_many_of_anything_is_refused() {
    let wide = |columns: usize| {
        let column = |at: usize| Column::new(format!("c{at}"), ColumnType::U8);
        (0..columns).map(column).fold(Schema::builder(), SchemaBuilder::column)
    };
    let key = |columns: usize| (0..columns).map(|at| format!("c{at}"));
    let limits = wide(COLUMNS_MAX).primary_key(key(KEY_COLUMNS_MAX)).build().unwrap();
    assert_eq!(Schema::from_bytes(&limits.to_bytes()), Ok(limits));
    assert_eq!(
        refused(wide(COLUMNS_MAX + 1).primary_key(["c0"])),
        "the table has 1018 columns, at most 1017 are allowed; use fewer"
    );
    assert_eq!(
        refused(wide(20).primary_key(key(17))),
        "the primary key has 17 columns, at most 16 are allowed; use fewer"
    );
    assert!(
        refused(wide(20).primary_key(["c0"]).index(Index::new("i", key(17)))).contains("index 'i' has 17")
    );
    let index = |at: usize| Index::new(format!("i{at}"), ["c1"]);
    let indexed = (0..=INDEXES_MAX).map(index).fold(wide(2).primary_key(["c0"]), SchemaBuilder::index);
    assert_eq!(refused(indexed), "the table has 65 indexes, at most 64 are allowed; use fewer");
}

#[test]
fn values_that_do_not_fit_say_why() {
    let schema = table().primary_key(["id"]).index(Index::new("by_age", ["age"])).build().unwrap();
    let row = |row: (i64, i64, Option<&str>)| said(schema.encode(row));
    assert_eq!(
        row((-1, 1, None)),
        "-1 is out of range for the column 'id', which takes u64: 0 to 18446744073709551615; use a wider type"
    );
    assert!(row((1, 256, None)).starts_with("256 is out of range for the column 'age'"));
    assert_eq!(
        said(schema.encode((1, None::<u8>, "x"))),
        "the column 'age' is not nullable; give it a value, or declare it nullable"
    );
    assert_eq!(
        said(schema.encode((1, 1.5, "x"))),
        "the column 'age' takes u8, not a float; give a value of that type"
    );
    assert!(said(schema.encode((1, 1, b"x"))).contains("takes text, not bytes"));
    assert_eq!(said(schema.encode((1, 2))), "2 values given for a row of 3 columns; give one for each");
    assert!(said(schema.indexes()[0].encode((1, 2))).contains("2 values given for a row of 3"));
    assert!(said(schema.key().encode((1, 2))).contains("2 values given for a key of 1 columns"));
    assert!(said(schema.key().prefix_range((1, 2))).contains("a key of 1 columns"));
    assert!(said(schema.index("x")).contains("no index 'x'"));
    assert!(said(schema.without_index("x")).contains("no index 'x'"));
    assert!(said(schema.place("x")).contains("a column 'x'"));
    assert!(said(schema.with_column(Column::new("x", ColumnType::Bool))).contains("give it a default"));
    assert_eq!(
        said(schema.key().get(1, &[0; 8])),
        "there is no column 1 among 1, counted from 0; check the number"
    );
    let long = KeyFormat::new(vec![KeyPart::new("t", ColumnType::Text)]);
    assert_eq!(
        said(long.encode("x".repeat(3072).as_str())),
        "a key of 3073 bytes is too long: at most 3072 once encoded; shorten its values, or leave out a column"
    );
}

#[test]
fn corrupt_keys_say_where() {
    let text = KeyFormat::new(vec![KeyPart::new("t", ColumnType::Text).nullable()]);
    assert!(said(text.decode(b"")).contains("the key is corrupt at byte 0: it ends within a column"));
    assert!(said(text.decode(b"\x02")).contains("at byte 0: a column is neither NULL nor a value"));
    assert!(said(text.decode(b"\x01Oslo")).contains("at byte 5: it ends within a column"));
    assert!(said(text.decode(b"\x01Os\x01\x03\0")).contains("at byte 4: a byte is escaped"));
    assert!(said(text.decode(b"\x01\xff\0")).contains("at byte 1: text is not UTF-8"));
    assert!(said(text.decode(b"\0\0")).contains("at byte 1: bytes follow its last column"));
    let number = KeyFormat::new(vec![KeyPart::new("f", ColumnType::F64)]);
    assert!(said(number.decode(&[0xff; 8])).contains("no value is written like this"), "an odd NaN");
    let bool = KeyFormat::new(vec![KeyPart::new("b", ColumnType::Bool)]);
    assert!(said(bool.decode(&[2])).contains("no value is written like this"));
}
