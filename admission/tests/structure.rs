//! The structure of `src`: no import circle, the gate below everything that parks or tells the time, the optional mechanisms behind
//! `hooks` alone, and the module map in ARCHITECTURE.md.
//!
//! `FLIFO_WRITE_MAP=1 cargo test -p flifo-admission --test structure` writes the map anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const MAP: (&str, &str) =
    ("<!-- module map of admission: generated -->\n", "<!-- end of the module map -->\n");

/// A module's path, such as `gate::word`, and its source without tests.
type Modules = BTreeMap<String, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The modules of the product: without models and tests, and without the tests at the end of a file.
fn modules() -> Modules {
    let mut modules = Modules::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !(path.ends_with("src/models") || path.ends_with("src/tests")) {
                    folders.push(path);
                }
                continue;
            }
            let name = path.strip_prefix(root().join("src")).unwrap().with_extension("");
            let name = name.to_str().unwrap().replace('/', "::").replace("::mod", "");
            let source = fs::read_to_string(&path).unwrap();
            let tests =
                source.find("\n#[cfg(test)]\nmod tests {").or_else(|| source.find("\n#[cfg(all(test"));
            modules.insert(name, source[..tests.unwrap_or(source.len())].to_owned());
        }
    }
    modules.remove("lib");
    modules
}

/// The module of the crate that a path such as `gate::word::Word` leads to, the deepest that there is.
fn module_of(path: &str, modules: &Modules) -> Option<String> {
    let parts: Vec<&str> = path.split("::").collect();
    (1..=parts.len()).rev().map(|length| parts[..length].join("::")).find(|name| modules.contains_key(name))
}

/// Paths behind `use crate::` and `use super::`, with those in braces one by one.
fn imports(module: &str, source: &str) -> Vec<String> {
    let mut paths = vec![];
    for statement in source
        .split('\n')
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join(" ")
        .split(';')
    {
        let Some(at) = statement.find("use ") else { continue };
        let used = statement[at + 4..].trim();
        let base = match used.split_once("::") {
            Some(("crate", rest)) => rest.to_owned(),
            Some(("super", rest)) => match module.rsplit_once("::") {
                Some((parent, _)) => format!("{parent}::{rest}"),
                None => rest.to_owned(),
            },
            Some(("self", rest)) => format!("{module}::{rest}"),
            _ => continue,
        };
        match base.split_once('{') {
            Some((head, names)) => {
                // One level of braces suffices here; a deeper one would be seen as an unknown path.
                let names =
                    names.trim_end_matches('}').split(',').map(str::trim).filter(|name| !name.is_empty());
                paths.extend(names.map(|name| format!("{head}{name}")));
            }
            None => paths.push(base),
        }
    }
    paths
}

/// Which module imports which. A module does not import its own children by containing them.
fn graph(modules: &Modules) -> BTreeMap<String, BTreeSet<String>> {
    let of = |(name, source): (&String, &String)| {
        let targets =
            imports(name, source).iter().filter_map(|path| module_of(path, modules)).collect::<BTreeSet<_>>();
        (name.clone(), targets.into_iter().filter(|target| target != name).collect())
    };
    modules.iter().map(of).collect()
}

#[test]
fn no_module_imports_itself_through_others() {
    let modules = modules();
    let graph = graph(&modules);
    assert!(graph["session"].contains("gate"), "the graph is read: {:?}", graph["session"]);
    for start in graph.keys() {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&String> = graph[start].iter().collect();
        while let Some(module) = next.pop() {
            assert_ne!(module, start, "{start} imports itself, through {seen:?}");
            if seen.insert(module) {
                next.extend(&graph[module]);
            }
        }
    }
}

/// A newcomer reads the gate without knowing what is above it.
#[test]
fn the_gate_knows_neither_time_nor_sessions() {
    let modules = modules();
    let mut lines = 0;
    for (name, source) in modules.iter().filter(|(name, _)| name.starts_with("gate")) {
        lines += source.lines().count();
        for path in imports(name, source) {
            let below = ["gate", "quantum::fairness", "sync"].iter().any(|known| path.starts_with(known));
            assert!(below, "{name} imports {path}");
        }
        assert!(name == "gate::parker" || !source.contains("std::time"), "{name} tells the time");
    }
    assert!(lines <= 1700, "the gate has grown to {lines} lines");
}

#[test]
fn optional_mechanisms_are_reached_through_hooks_alone() {
    for (name, targets) in graph(&modules()) {
        let reaches = targets.iter().find(|target| target.starts_with("extra"));
        assert!(
            reaches.is_none() || name == "hooks" || name.starts_with("extra"),
            "{name} imports {reaches:?}"
        );
    }
}

/// The map: each module's first line, below the modules it imports.
fn map(modules: &Modules) -> String {
    let mut map = "| module | holds |\n|---|---|\n".to_owned();
    for (name, source) in modules {
        let head: String = source
            .lines()
            .take_while(|line| line.starts_with("//! "))
            .map(|line| format!("{} ", &line[4..]))
            .collect();
        let head = head.split(". ").next().unwrap().trim().trim_end_matches('.');
        map.push_str(&format!("| `{name}` | {head} |\n"));
    }
    map
}

#[test]
fn the_module_map_is_what_the_sources_say() {
    let path = root().join("../ARCHITECTURE.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(MAP.0).expect("ARCHITECTURE.md has the map's first marker");
    let (written, after) = rest.split_once(MAP.1).expect("ARCHITECTURE.md has the map's last marker");
    let map = map(&modules());
    if std::env::var_os("FLIFO_WRITE_MAP").is_some() {
        fs::write(&path, format!("{before}{}{map}{}{after}", MAP.0, MAP.1)).unwrap();
    } else {
        assert_eq!(written, map, "stale: FLIFO_WRITE_MAP=1 cargo test -p flifo-admission --test structure");
    }
}
