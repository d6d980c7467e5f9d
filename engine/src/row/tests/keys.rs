use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

use super::*;

type Tuple = Vec<Value>;

fn part() -> impl Strategy<Value = KeyPart> {
    (kind(), any::<bool>(), any::<bool>()).prop_map(|(kind, nullable, descending)| {
        let direction = if descending { Direction::Descending } else { Direction::Ascending };
        KeyPart { name: "c".into(), kind, nullable, direction }
    })
}

fn tuple(parts: &[KeyPart]) -> impl Strategy<Value = Tuple> + use<> {
    parts.iter().map(|part| value(part.kind, part.nullable)).collect::<Vec<_>>()
}

/// A format, and tuples of which each has every column from one of a few: so they often agree in some.
fn tuples() -> impl Strategy<Value = (KeyFormat, Vec<Tuple>)> {
    proptest::collection::vec(part(), 1..5).prop_flat_map(|parts| {
        let columns = parts.len();
        let tuples = proptest::collection::vec(tuple(&parts), 3);
        let picks = proptest::collection::vec(proptest::collection::vec(0..3_usize, columns), 2..20);
        (tuples, picks).prop_map(move |(tuples, picks)| {
            let pick = |pick: Vec<usize>| {
                pick.iter().enumerate().map(|(column, &from)| tuples[from][column].clone()).collect()
            };
            (KeyFormat::new(parts.clone()), picks.into_iter().map(pick).collect())
        })
    })
}

/// How two tuples compare, up to the columns of the shorter.
fn order_of(format: &KeyFormat, a: &[Value], b: &[Value]) -> Ordering {
    let columns = format.parts().iter().zip(a.iter().zip(b));
    columns.fold(Ordering::Equal, |sofar, (part, (a, b))| {
        sofar.then(match part.direction {
            Direction::Ascending => order(a, b),
            Direction::Descending => order(b, a),
        })
    })
}

fn bound<T>(kind: u8, value: T) -> Bound<T> {
    match kind {
        0 => Bound::Included(value),
        1 => Bound::Excluded(value),
        _ => Bound::Unbounded,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn keys_order_as_tuples_do((format, tuples) in tuples()) {
        for a in &tuples {
            for b in &tuples {
                let (key_a, key_b) = (format.encode(a).unwrap(), format.encode(b).unwrap());
                prop_assert_eq!(key_a.cmp(&key_b), order_of(&format, a, b), "{:?} {:?}", a, b);
                prop_assert!(key_a == key_b || !key_a.starts_with(&key_b));
            }
        }
    }

    #[test]
    fn keys_are_read_back((format, tuples) in tuples()) {
        for tuple in &tuples {
            let key = format.encode(tuple).unwrap();
            prop_assert_eq!(&format.decode(&key).unwrap(), tuple);
            for (column, value) in tuple.iter().enumerate() {
                prop_assert_eq!(&format.get(column, &key).unwrap(), value);
                let (prefix, any_null) = format.prefix_of(column + 1, &key).unwrap();
                prop_assert_eq!(prefix, &format.encode_prefix(&tuple[..=column]).unwrap()[..]);
                prop_assert_eq!(any_null, tuple[..=column].iter().any(Value::is_null));
            }
            prop_assert_eq!(format.spans(&key).unwrap().concat(), key);
        }
    }

    #[test]
    fn prefix_ranges_hold_the_keys_with_the_prefix_and_no_others(
        (format, tuples) in tuples(),
        columns in 0..5_usize,
    ) {
        let prefix = &tuples[0][..columns.min(tuples[0].len())];
        let range = format.prefix_range(prefix).unwrap();
        for tuple in &tuples {
            let is_in = order_of(&format, prefix, tuple).is_eq();
            prop_assert_eq!(range.contains(&format.encode(tuple).unwrap()), is_in, "{:?}", tuple);
        }
    }

    #[test]
    fn ranges_hold_what_is_between(
        (format, tuples) in tuples(),
        (from_kind, from_columns) in (0..3_u8, 0..5_usize),
        (to_kind, to_columns) in (0..3_u8, 0..5_usize),
    ) {
        let from = &tuples[0][..from_columns.min(tuples[0].len())];
        let to = &tuples[1][..to_columns.min(tuples[1].len())];
        let range = format.range(bound(from_kind, from), bound(to_kind, to)).unwrap();
        for tuple in &tuples {
            let after_from = match order_of(&format, from, tuple) {
                Ordering::Less => true,
                Ordering::Equal => from_kind != 1,
                Ordering::Greater => from_kind == 2,
            };
            let before_to = match order_of(&format, tuple, to) {
                Ordering::Less => true,
                Ordering::Equal => to_kind != 1,
                Ordering::Greater => to_kind == 2,
            };
            prop_assert_eq!(range.contains(&format.encode(tuple).unwrap()), after_from && before_to);
        }
    }

    /// Whatever is read back without an error is a key, and the only one of its values.
    #[test]
    fn damaged_keys_are_read_or_refused((format, tuples) in tuples(), (flips, resize) in damages()) {
        let key = damage(format.encode(&tuples[0]).unwrap(), &flips, resize);
        check_any(&format, &key);
    }

    #[test]
    fn random_bytes_are_read_or_refused(
        parts in proptest::collection::vec(part(), 0..4),
        key in proptest::collection::vec(prop_oneof![0..3_u8, 0xfd..=0xff_u8, any::<u8>()], 0..24),
    ) {
        check_any(&KeyFormat::new(parts), &key);
    }
}

fn check_any(format: &KeyFormat, key: &[u8]) {
    if let Ok(values) = format.decode(key) {
        assert_eq!(format.encode(&values).unwrap(), key);
        assert_eq!(format.spans(key).unwrap().concat(), key);
    }
    let _ = format.spans(key);
    for column in 0..=format.parts().len() {
        let _ = (format.get(column, key), format.prefix_of(column, key));
    }
}

fn one(kind: ColumnType) -> KeyFormat {
    KeyFormat::new(vec![KeyPart::new("c", kind)])
}

/// The examples in docs/format.md.
#[test]
fn keys_are_as_they_are_drawn() {
    assert_eq!(one(ColumnType::U16).encode(300).unwrap(), [0x01, 0x2c]);
    assert_eq!(one(ColumnType::I16).encode(-2).unwrap(), [0x7f, 0xfe]);
    assert_eq!(one(ColumnType::F64).encode(1.0).unwrap(), [0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(one(ColumnType::F64).encode(-1.0).unwrap(), [0x40, 0x0f, 255, 255, 255, 255, 255, 255]);
    assert_eq!(one(ColumnType::Text).encode("Oslo").unwrap(), b"Oslo\0");
    assert_eq!(one(ColumnType::Bytes).encode(&[0, 1, 2]).unwrap(), [1, 1, 1, 2, 2, 0]);
    assert_eq!(one(ColumnType::Text).encode("").unwrap(), [0]);
    let nullable = KeyFormat::new(vec![KeyPart::new("c", ColumnType::Bool).nullable()]);
    assert_eq!(nullable.encode(None::<bool>).unwrap(), [0]);
    assert_eq!(nullable.encode(true).unwrap(), [1, 1]);
    let descending = KeyFormat::new(vec![KeyPart::new("c", ColumnType::Text).nullable().descending()]);
    assert_eq!(descending.encode(None::<&str>).unwrap(), [0xff]);
    assert_eq!(descending.encode("Oslo").unwrap(), [0xfe, 0xb0, 0x8c, 0x93, 0x90, 0xff]);
}

#[test]
fn floats_order_by_number_with_one_zero_and_one_nan_above_all() {
    let format = one(ColumnType::F64);
    let numbers =
        [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY, f64::NAN];
    let keys = numbers.map(|number| format.encode(number).unwrap());
    assert!(keys.is_sorted_by(|a, b| a < b));
    assert_eq!(format.encode(-0.0).unwrap(), format.encode(0.0).unwrap());
    let odd_nan = f64::from_bits(0xfff0_0000_0000_0001);
    assert_eq!(format.encode(odd_nan).unwrap(), format.encode(f64::NAN).unwrap());
    let zero = format.get(0, &format.encode(-0.0).unwrap()).unwrap();
    assert!(matches!(zero, Value::Float(zero) if zero.is_sign_positive()));
}

#[test]
fn a_range_beyond_the_last_key_is_empty() {
    let format = KeyFormat::new(vec![KeyPart::new("a", ColumnType::U8), KeyPart::new("b", ColumnType::U8)]);
    let keys: BTreeSet<_> = (0..=255_u8).map(|a| format.encode((a, 255)).unwrap()).collect();
    let count = |from: Bound<u8>, to: Bound<u8>| keys.range(format.range(from, to).unwrap()).count();
    assert_eq!(count(Bound::Excluded(255), Bound::Unbounded), 0);
    assert_eq!(count(Bound::Included(255), Bound::Unbounded), 1);
    assert_eq!(count(Bound::Excluded(253), Bound::Excluded(255)), 1);
    assert_eq!(keys.range(format.prefix_range(()).unwrap()).count(), 256);
    assert_eq!(keys.range(format.prefix_range(255).unwrap()).count(), 1);
}

#[test]
fn what_fails_appends_nothing() {
    let format = KeyFormat::new(vec![KeyPart::new("a", ColumnType::Text), KeyPart::new("b", ColumnType::U8)]);
    let mut key = b"before".to_vec();
    assert!(format.encode_into(("text", 256), &mut key).is_err());
    assert!(format.encode_into(("x".repeat(KEY_BYTES_MAX).as_str(), 1), &mut key).is_err());
    assert_eq!(key, b"before");
    format.encode_into(("x".repeat(KEY_BYTES_MAX - 2).as_str(), 1), &mut key).unwrap();
    assert_eq!(key.len(), 6 + KEY_BYTES_MAX);
}
