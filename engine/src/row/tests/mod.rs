//! What the tests share: random columns and values, and the order of values said in another way than the code does.

mod errors;
mod keys;
mod rows;
mod schemas;

use std::cmp::Ordering;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn kind() -> impl Strategy<Value = ColumnType> {
    select(ColumnType::ALL.to_vec())
}

fn integer(kind: ColumnType) -> BoxedStrategy<Value> {
    let (least, greatest) = kind.limits().unwrap();
    let edges = [least, least + 1, -1, 0, 1, 255, 256, greatest - 1, greatest];
    let edges: Vec<i128> = edges.into_iter().filter(|edge| (least..=greatest).contains(edge)).collect();
    let number = prop_oneof![select(edges), least..=greatest];
    (number, any::<bool>())
        .prop_map(|(number, signed)| match (i64::try_from(number), u64::try_from(number)) {
            (Ok(number), Err(_)) => Value::Signed(number),
            (Ok(number), Ok(_)) if signed => Value::Signed(number),
            (_, Ok(number)) => Value::Unsigned(number),
            _ => unreachable!("no type has such numbers"),
        })
        .boxed()
}

fn float() -> BoxedStrategy<Value> {
    let edges = [0.0, f64::MIN_POSITIVE, 5e-324, 1.0, f64::MAX, f64::INFINITY, f64::NAN];
    let edges = edges.into_iter().flat_map(|edge| [edge, -edge]).collect::<Vec<_>>();
    prop_oneof![select(edges), any::<u64>().prop_map(f64::from_bits)].prop_map(Value::Float).boxed()
}

/// Short strings of few bytes, so that they often begin alike and need escapes.
fn bytes() -> BoxedStrategy<Value> {
    let byte = prop_oneof![select(vec![0, 1, 2, b'a', 0xfe, 0xff]), any::<u8>()];
    proptest::collection::vec(byte, 0..6).prop_map(Value::Bytes).boxed()
}

fn text() -> BoxedStrategy<Value> {
    let char =
        prop_oneof![select(vec!['\0', '\u{1}', '\u{2}', 'a', 'é', '\u{ffff}', '\u{10000}']), any::<char>()];
    proptest::collection::vec(char, 0..6).prop_map(|chars| Value::Text(chars.into_iter().collect())).boxed()
}

fn value(kind: ColumnType, nullable: bool) -> BoxedStrategy<Value> {
    let value = match kind {
        ColumnType::F64 => float(),
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Bytes => bytes(),
        ColumnType::Text => text(),
        _ => integer(kind),
    };
    if nullable { prop_oneof![1 => Just(Value::Null), 4 => value].boxed() } else { value }
}

/// How two values of a column compare.
fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => b.is_null().cmp(&a.is_null()),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.chars().cmp(b.chars()),
        _ => a.as_ref().integer().unwrap().cmp(&b.as_ref().integer().unwrap()),
    }
}

/// Changes some bits of `bytes`, or makes it shorter or longer.
fn damage(mut bytes: Vec<u8>, flips: &[prop::sample::Index], resize: Option<u8>) -> Vec<u8> {
    let flips = if bytes.is_empty() { &[] } else { flips };
    for flip in flips {
        let bit = flip.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    if let Some(by) = resize {
        bytes.resize((bytes.len() + usize::from(by)).saturating_sub(128), by);
    }
    bytes
}

fn damages() -> impl Strategy<Value = (Vec<prop::sample::Index>, Option<u8>)> {
    (
        proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        proptest::option::weighted(0.3, any::<u8>()),
    )
}

#[test]
fn the_types_numbers_on_disk_stay() {
    let codes = ColumnType::ALL.map(|kind| (kind.code(), kind.to_string()));
    let names = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f64", "bool", "bytes", "text"];
    assert_eq!(codes.to_vec(), (1..).zip(names.map(str::to_owned)).collect::<Vec<_>>());
    assert!(ColumnType::ALL.iter().all(|kind| ColumnType::from_code(kind.code()) == Some(*kind)));
    assert_eq!((ColumnType::from_code(0), ColumnType::from_code(13)), (None, None));
}

proptest! {
    #[test]
    fn values_compare_as_keys_do((a, b) in kind().prop_flat_map(|kind| (value(kind, true), value(kind, true)))) {
        prop_assert_eq!(a.cmp(&b), order(&a, &b));
        prop_assert_eq!(a == b, order(&a, &b).is_eq());
    }
}
