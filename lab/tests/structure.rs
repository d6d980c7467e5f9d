//! The structure of `src`: layers that import downwards only, and no import circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layers, and what each may import besides itself.
const LAYERS: [(&str, &[&str]); 5] = [
    ("commands", &["measure", "report", "results", "support"]),
    ("measure", &["results", "support"]),
    ("report", &["results", "support"]),
    ("results", &["support"]),
    ("support", &[]),
];

/// A source file: its module's path, such as `measure::workload`, and its text.
struct Source {
    file: String,
    module: Vec<String>,
    text: String,
}

/// A path that a file names, relative to the crate, with the line on which its statement begins.
#[derive(Debug, PartialEq, Eq)]
struct Import {
    line: usize,
    path: Vec<String>,
}

/// A line of a file, or a `use` over several lines.
struct Statement {
    line: usize,
    text: String,
    /// What is behind `use`, without blanks.
    used: Option<String>,
}

/// All files except the roots of the two crates, which hold no layer.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut sources, mut folders) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                let text = fs::read_to_string(&path).unwrap();
                sources.push(Source { module: module_of(&file), file, text });
            }
        }
    }
    sources.retain(|source| !matches!(source.file.as_str(), "lib.rs" | "main.rs"));
    sources.sort_by(|a, b| a.file.cmp(&b.file));
    sources
}

fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').map(str::to_owned).collect()
}

impl Source {
    /// What the file imports or names: each `use` of it, and each path that begins with `crate` or `super`.
    fn imports(&self) -> Vec<Import> {
        let mut imports = Vec::new();
        for statement in self.statements() {
            let paths: Vec<String> = match &statement.used {
                Some(used) => leaves(used),
                None => named(&statement.text).map(str::to_owned).collect(),
            };
            imports.extend(paths.iter().filter_map(|path| self.import(statement.line, path)));
        }
        imports
    }

    /// The names that the module passes on, each with the path behind `use`.
    fn passed_on(&self) -> Vec<String> {
        let is_public = |statement: &Statement| statement.text.trim_start().starts_with("pub");
        let used = self.statements().into_iter().filter(is_public).filter_map(|statement| statement.used);
        used.flat_map(|used| leaves(&used)).collect()
    }

    /// The file line by line, but a `use` over several lines as one.
    fn statements(&self) -> Vec<Statement> {
        let mut statements = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let mut text = without_comment(line).to_owned();
            let is_use = used(&text).is_some();
            while is_use && !text.contains(';') {
                let Some((_, more)) = lines.next() else { break };
                text.push_str(without_comment(more));
            }
            let used =
                used(&text).map(|used| used.split(';').next().unwrap_or("").split_whitespace().collect());
            statements.push(Statement { line: number + 1, text, used });
        }
        statements
    }

    fn import(&self, line: usize, path: &str) -> Option<Import> {
        let mut parts = path.split("::").filter(|part| !part.is_empty()).peekable();
        let mut from = self.module.clone();
        match parts.peek() {
            Some(&"crate") => {
                from.clear();
                parts.next();
            }
            Some(&"self") => {
                parts.next();
            }
            Some(&"super") => {
                while parts.next_if_eq(&"super").is_some() {
                    from.pop();
                }
            }
            _ => return None,
        }
        from.extend(parts.map(str::to_owned));
        Some(Import { line, path: from })
    }

    /// The text without the tests at its end.
    fn without_tests(&self) -> Source {
        let end = self.text.find("#[cfg(test)]\nmod tests").unwrap_or(self.text.len());
        Source { file: self.file.clone(), module: self.module.clone(), text: self.text[..end].to_owned() }
    }
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or("")
}

/// What a line that begins a `use` statement uses, so far as it is on the line.
fn used(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    line.strip_prefix("use ")
}

/// The paths of a line that begin with `crate` or `super`.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let is_of_a_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = line.split(move |c| !is_of_a_path(c));
    words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`.
fn leaves(path: &str) -> Vec<String> {
    let Some((head, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match c {
            ',' if depth == 0 => parts.push(String::new()),
            c => parts.last_mut().expect("one at least").push(c),
        }
    }
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.flat_map(|part| leaves(&format!("{head}{part}"))).collect()
}

#[test]
fn every_file_is_in_a_layer() {
    for source in sources() {
        let is_in_one = LAYERS.iter().any(|(layer, _)| source.module[0] == *layer);
        assert!(is_in_one, "lab/src/{} is in no layer: see the head of lab/src/lib.rs", source.file);
    }
}

#[test]
fn a_layer_imports_only_layers_below_it() {
    let mut upward = Vec::new();
    let mut downward = 0;
    for source in sources() {
        let (layer, below) = LAYERS.iter().find(|(layer, _)| source.module[0] == *layer).expect("a layer");
        for import in source.imports() {
            let Some(other) = import.path.first().map(String::as_str) else { continue };
            let is_layer = LAYERS.iter().any(|(layer, _)| *layer == other);
            if !is_layer || other == *layer {
                continue;
            }
            if below.contains(&other) {
                downward += 1;
            } else {
                let path = import.path.join("::");
                upward.push(format!("lab/src/{}:{}: {layer} imports {path}", source.file, import.line));
            }
        }
    }
    assert!(downward > 300, "the imports are read: {downward}");
    assert!(upward.is_empty(), "a layer may import only layers below it:\n{}", upward.join("\n"));
}

/// The modules as a graph. An import of a name that a module passes on is an import of the module that defines it.
fn graph(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let modules: BTreeSet<String> = sources.iter().map(|source| source.module.join("::")).collect();
    let deepest = |path: &[String]| {
        (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|name| modules.contains(name))
    };
    let mut passed_on: BTreeMap<String, String> = BTreeMap::new();
    for source in sources {
        for path in source.passed_on() {
            let mut from = source.module.clone();
            from.extend(path.split("::").map(str::to_owned));
            let (Some(name), Some(target)) = (from.last().cloned(), deepest(&from)) else { continue };
            let module = source.module.join("::");
            if target != module {
                passed_on.insert(format!("{module}::{name}"), target);
            }
        }
    }
    let imported = |source: &Source| -> BTreeSet<String> {
        let module = source.module.join("::");
        let target = |import: Import| {
            let through = passed_on.get(&import.path.join("::")).cloned();
            through.or_else(|| deepest(&import.path))
        };
        source.imports().into_iter().filter_map(target).filter(|target| *target != module).collect()
    };
    sources.iter().map(|source| (source.module.join("::"), imported(source))).collect()
}

#[test]
fn no_module_imports_itself_through_others() {
    let sources: Vec<Source> = sources().iter().map(Source::without_tests).collect();
    let graph = graph(&sources);
    assert!(
        graph["commands::steps"].contains("report::sweep::text"),
        "names passed on are followed: {:?}",
        graph["commands::steps"]
    );
    for start in graph.keys() {
        let mut came_from: BTreeMap<&String, &String> = BTreeMap::new();
        let mut next = vec![start];
        while let Some(module) = next.pop() {
            for target in &graph[module] {
                if came_from.contains_key(target) {
                    continue;
                }
                came_from.insert(target, module);
                if target == start {
                    let mut circle = vec![start.as_str(), module.as_str()];
                    while *circle.last().expect("not empty") != start {
                        circle.push(came_from[&circle[circle.len() - 1].to_owned()]);
                    }
                    circle.reverse();
                    panic!("an import circle: {}", circle.join(" -> "));
                }
                next.push(target);
            }
        }
    }
}

#[test]
fn imports_are_read_as_they_are_written() {
    let text = "use crate::a::{b, c::{D, self}};\n    use super::x; // use crate::not\npub(crate) use crate::e\n    ::F;\nlet y = crate::g::h(super::super::i);\nuse std::fmt;\n";
    let source = Source { file: String::new(), module: module_of("m/n.rs"), text: text.to_owned() };
    let read: Vec<String> =
        source.imports().iter().map(|import| format!("{} {}", import.line, import.path.join("::"))).collect();
    assert_eq!(read, ["1 a::b", "1 a::c::D", "1 a::c::self", "2 m::x", "3 e::F", "5 g::h", "5 i"]);
}
