//! `matrix` on real servers, with times so small that the figures mean nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const TINY: &str =
    "--rows 1000 --buffer-pool 32M --log-file-size 16M --rounds 6 --slice 60 --settle 10 --warm-up 0.3";

fn matrix(temp: &TempDir, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo-mariadb-bench"));
    command.arg("matrix").args(arguments.split_whitespace()).env("TMPDIR", temp.path());
    command.stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Neither files of the servers nor processes.
fn assert_nothing_left(temp: &TempDir) {
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let names = |entry: fs::DirEntry| {
        let bytes = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
        line.contains(&*temp.path().to_string_lossy()).then_some(line)
    };
    let running: Vec<String> = fs::read_dir("/proc").unwrap().flatten().filter_map(names).collect();
    assert_eq!(running, Vec::<String>::new());
}

fn parsed(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// A load of ours, one with background, one of other servers.
#[test]
fn cells_are_measured_and_shown() {
    let (temp, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str| files.path().join(name);
    let output = matrix(
        &temp,
        &format!(
            "{TINY} --load job-queue,beside-load-data,tls --connections 4 --json {} --svg {} --markdown {}",
            file("o.json").display(),
            file("o.svg").display(),
            file("o.md").display()
        ),
    );
    assert!(output.status.success(), "{}", said(&output));
    assert_nothing_left(&temp);
    let results = parsed(&file("o.json"));
    let cells = results["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3, "{}", said(&output));
    for cell in cells {
        for (summary, slices) in
            cell["summaries"].as_array().unwrap().iter().zip(cell["slices"].as_array().unwrap())
        {
            assert!(summary["throughput_per_s"].as_f64().unwrap() > 0.0, "{summary}");
            assert_eq!(slices.as_array().unwrap().len(), 6, "{cell}");
            let is_base = summary["variant"] == "stock";
            assert_eq!(summary["ratio"]["low"].is_null(), is_base, "{summary}");
            let has_background = cell["load"] == "beside-load-data";
            assert_eq!(
                summary["background_per_s"].as_f64().is_some_and(|per_s| per_s > 0.0),
                has_background,
                "{cell}"
            );
        }
    }
    assert_eq!(results["notes"], Value::Array(Vec::new()), "{}", said(&output));
    assert_eq!(results["servers"].as_array().unwrap().len(), 2, "each set of servers once");
    let text = fs::read_to_string(file("o.md")).unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains(&text), "what is written is what is shown");
    for target in ["### plugin / stock", "job queue, SKIP LOCKED", "| tls ", "ssl-key=", " rows"] {
        assert!(text.contains(target), "{target} is missing in\n{text}");
    }
    let picture = fs::read_to_string(file("o.svg")).unwrap();
    assert_eq!(picture.matches("<rect ").count(), 1 + 3, "{picture}");
}

#[test]
fn a_load_that_changes_has_a_row_for_all_its_phases() {
    let (temp, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let json = files.path().join("o.json");
    let arguments =
        format!("{TINY} --load phases --connections 3 --phase 1 --slice 400 --json {}", json.display());
    let output = matrix(&temp, &arguments.replace("--slice 60", ""));
    assert!(output.status.success(), "{}", said(&output));
    assert_nothing_left(&temp);
    let results = parsed(&json);
    let slices = results["cells"][0]["slices"][1].as_array().unwrap();
    let phases: Vec<&str> = slices.iter().map(|slice| slice["phase"].as_str().unwrap()).collect();
    let one = |name: &'static str| [name; 3];
    let cycle = [one("point-select"), one("hot-rows-100"), one("read-write")].concat();
    assert_eq!(phases, cycle, "{}", said(&output));
}

#[test]
fn a_variant_that_does_not_start_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let arguments = format!("{TINY} --load insert --connections 2 --variant plugin=plugin:flifo_policy=fast");
    let output = matrix(&temp, &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("variant plugin: the server runs without the plugin: "),
        "{}",
        said(&output)
    );
    assert_nothing_left(&temp);
    let listed = matrix(&temp, "--list");
    assert!(listed.status.success() && said(&listed).contains("job-queue"), "{}", said(&listed));
}
