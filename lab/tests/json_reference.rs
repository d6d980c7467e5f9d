//! The tables of JSON keys in docs/ are generated from the types that write the JSON.
//!
//! A page has a block for each type, `<!-- json:TYPE -->` to `<!-- /json -->`, with a row for each key: its type, and the
//! field's documentation. To write the blocks anew:
//!
//! ```sh
//! FLIFO_WRITE_DOCS=1 cargo test -p flifo --test json_reference
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flifo::results::database::{CheckJson, FileJson, FindingJson, SpaceJson, StatJson, TreeJson};
use flifo::results::io::{BlockLayer, IoCell, IoKey, IoLatency, IoResults, IoRound, IoSettings, Storage};
use flifo::results::{
    AdmissionFigures, Cell, CellKey, ChangeFigures, DiskFigures, EngineSecond, EntryFigures, Failure,
    Fairness, HostFigures, KindFigures, Machine, RefusalFigures, Results, Round, Second, ServerFigures,
    Settings, Summary, Variable,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

const WRITE: &str = "FLIFO_WRITE_DOCS";
const OPEN: &str = "<!-- json:";
const CLOSE: &str = "<!-- /json -->";

/// The tables of all types that a page may show, by the name of the type.
type Tables = BTreeMap<&'static str, Vec<Row>>;

struct Row {
    key: String,
    kind: String,
    meaning: String,
}

/// The keys of an object in the order in which they are written.
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Keys;

            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        from.deserialize_map(Ordered)
    }
}

/// The properties of `T`, by key.
fn properties<T: JsonSchema>() -> serde_json::Map<String, Value> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    schema.get("properties").and_then(Value::as_object).expect("an object's properties").clone()
}

/// The rows of `T`, in the order in which `example` is written. Keys of `parts`, types whose fields are written in the same
/// object, have tables of their own.
fn rows<T: JsonSchema + Serialize>(example: &T, parts: &[&[Row]]) -> Vec<Row> {
    let mut properties = properties::<T>();
    for row in parts.iter().flat_map(|part| part.iter()) {
        properties.remove(&row.key).unwrap_or_else(|| panic!("{} is no key of the object", row.key));
    }
    let Keys(written) = serde_json::from_str(&serde_json::to_string(example).unwrap()).unwrap();
    let rows: Vec<Row> = written
        .into_iter()
        .filter_map(|key| properties.remove(&key).map(|property| row(key, &property)))
        .collect();
    assert!(properties.is_empty(), "the example lacks {properties:?}");
    rows
}

fn row(key: String, property: &Value) -> Row {
    let meaning = property["description"].as_str().unwrap_or_default();
    assert!(!meaning.is_empty(), "{key} has no documentation");
    let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    Row { key, kind: kind(property), meaning: meaning.trim_end_matches('.').to_owned() }
}

/// The type of a value, as a reader of JSON says.
fn kind(property: &Value) -> String {
    if let Some(choices) = property["anyOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if property["$ref"].is_string() {
        return "object".into();
    }
    let names: Vec<&str> = match &property["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        other => panic!("a value without a type: {other}"),
    };
    let name = |name: &&str| match *name {
        "array" => format!("array of {}s", kind(&property["items"])),
        "null" => "`null`".to_owned(),
        name => name.to_owned(),
    };
    names.iter().map(name).collect::<Vec<_>>().join(" or ")
}

fn tables() -> Tables {
    let key = CellKey { workload: "w".into(), load: "l".into(), ..CellKey::default() };
    let check =
        CheckJson { trees: Some(Vec::new()), space: Some(SpaceJson::default()), ..CheckJson::default() };
    let results = Results::new(Machine::default(), Settings::default(), String::new(), String::new());
    let mut tables: Tables = [
        ("Results", rows(&results, &[])),
        ("Machine", rows(&Machine::default(), &[])),
        ("Settings", rows(&Settings::default(), &[])),
        ("Variable", rows(&Variable::default(), &[])),
        ("CellKey", rows(&key, &[])),
        ("Failure", rows(&Failure::default(), &[])),
        ("Summary", rows(&Summary::default(), &[])),
        ("HostFigures", rows(&HostFigures::default(), &[])),
        ("EntryFigures", rows(&EntryFigures::default(), &[])),
        ("AdmissionFigures", rows(&AdmissionFigures::default(), &[])),
        ("Fairness", rows(&Fairness::default(), &[])),
        ("ServerFigures", rows(&ServerFigures::default(), &[])),
        ("RefusalFigures", rows(&RefusalFigures::default(), &[])),
        ("DiskFigures", rows(&DiskFigures::default(), &[])),
        ("ChangeFigures", rows(&ChangeFigures::default(), &[])),
        ("Second", rows(&Second::default(), &[])),
        ("KindFigures", rows(&KindFigures::default(), &[])),
        ("EngineSecond", rows(&EngineSecond::default(), &[])),
        ("IoResults", rows(&IoResults::default(), &[])),
        ("Storage", rows(&Storage::default(), &[])),
        ("IoSettings", rows(&IoSettings::default(), &[])),
        ("IoKey", rows(&IoKey::default(), &[])),
        ("IoRound", rows(&IoRound::default(), &[])),
        ("IoLatency", rows(&IoLatency::default(), &[])),
        ("BlockLayer", rows(&BlockLayer::default(), &[])),
        ("CheckJson", rows(&check, &[])),
        ("FindingJson", rows(&FindingJson::default(), &[])),
        ("TreeJson", rows(&TreeJson::default(), &[])),
        ("SpaceJson", rows(&SpaceJson::default(), &[])),
        ("StatJson", rows(&StatJson::default(), &[])),
        ("FileJson", rows(&FileJson::default(), &[])),
    ]
    .into();
    let cell = rows(&Cell::new(key), &parts(&tables, &["CellKey", "Summary"]));
    let round = rows(
        &Round::default(),
        &parts(
            &tables,
            &[
                "HostFigures",
                "EntryFigures",
                "AdmissionFigures",
                "Fairness",
                "DiskFigures",
                "ChangeFigures",
                "ServerFigures",
                "RefusalFigures",
            ],
        ),
    );
    let io_cell = rows(&IoCell::default(), &parts(&tables, &["IoKey"]));
    tables.extend([("Cell", cell), ("Round", round), ("IoCell", io_cell)]);
    tables
}

fn parts<'t>(tables: &'t Tables, names: &[&'static str]) -> Vec<&'t [Row]> {
    names.iter().map(|name| tables[name].as_slice()).collect()
}

fn table(rows: &[Row]) -> String {
    let mut text = "| key | type | meaning |\n|---|---|---|\n".to_owned();
    for Row { key, kind, meaning } in rows {
        text += &format!("| `{key}` | {kind} | {meaning} |\n");
    }
    text
}

/// The page with its blocks as they must be, and the types that it shows.
fn generated(page: &str, tables: &Tables) -> (String, BTreeSet<String>) {
    let mut parts = page.split(OPEN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut shown = BTreeSet::new();
    for part in parts {
        let (name, rest) = part.split_once(" -->").expect("the marker's end");
        let (_, after) = rest.split_once(CLOSE).unwrap_or_else(|| panic!("json:{name} has no end"));
        let rows = tables.get(name).unwrap_or_else(|| panic!("json:{name} is no type of the JSON"));
        text += &format!("{OPEN}{name} -->\n{}{CLOSE}{after}", table(rows));
        shown.insert(name.to_owned());
    }
    (text, shown)
}

#[test]
fn the_tables_of_json_keys_match_the_types() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let tables = tables();
    let mut all = BTreeSet::new();
    for page in ["results.md", "iobench.md", "check.md"] {
        let path = docs.join(page);
        let written = std::fs::read_to_string(&path).unwrap();
        let (text, shown) = generated(&written, &tables);
        all.extend(shown);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, text).unwrap();
        } else {
            assert!(
                written == text,
                "the JSON tables of docs/{page} are stale; write them with {WRITE}=1 cargo test -p flifo --test json_reference"
            );
        }
    }
    let missing: Vec<&str> = tables.keys().copied().filter(|name| !all.contains(*name)).collect();
    assert!(missing.is_empty(), "no page shows {missing:?}");
}
