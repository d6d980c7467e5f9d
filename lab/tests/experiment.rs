//! The real binary repeats studies: every part is measured, every claim judged, page and JSON are written.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{flifo, refused, results, succeeds};
use serde_json::Value;

const STUDIES: [&str; 5] = [
    "flifo-2009",
    "thread-concurrency-2009",
    "kernel-mutex-2011",
    "buffer-pool-instances-2012",
    "linux-io-2012",
];

/// Small enough for seconds.
const TINY: &[&str] =
    &["--quick", "--table-size", "2000", "--threads", "4", "--time", "0.05", "--rounds", "2"];

fn experiment(name: &str, data: &Path) -> Command {
    let mut command = flifo();
    command.args(["experiment", name]).args(TINY).arg("--data").arg(data);
    command
}

/// Each cell of each part has its rounds, and each claim of the study has a verdict.
fn check(json: &Value, parts: &[&str], claims: usize) {
    assert_eq!((json["kind"].as_str(), json["scale"].as_str()), (Some("experiment"), Some("quick")));
    assert_eq!(json["interrupted"], false);
    let measured = json["parts"].as_array().unwrap();
    let names: Vec<&str> = measured.iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, parts);
    for part in measured {
        let cells = part["run"]["cells"].as_array().unwrap();
        assert!(cells.len() >= 4, "{}", part["name"]);
        for cell in cells {
            assert_eq!(cell["rounds"].as_array().unwrap().len(), 2, "{cell}");
        }
        let line = part["run"]["command_line"].as_str().unwrap();
        assert!(line.contains("flifo sweep --workload"), "{line}");
    }
    let judged = json["claims"].as_array().unwrap();
    let mut texts: Vec<&str> = judged.iter().map(|claim| claim["claim"].as_str().unwrap()).collect();
    texts.dedup();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), claims, "{texts:#?}");
    assert!(judged.iter().all(|claim| claim["verdict"].is_string()));
}

#[test]
fn a_study_is_measured_judged_shown_and_recorded() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str| temp.path().join(name);
    let mut command = experiment("kernel-mutex-2011", &file("data"));
    command.arg("--json").arg(file("k.json")).arg("--html").arg(file("k.html"));
    command.arg(format!("--record={}", temp.path().display()));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    for part in
        ["part 1 of 2: limits by threads", "part 2 of 2: rounds of spinning", "published", "kernel-mutex-0"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = results(&file("k.json"));
    check(&json, &["limits by threads", "rounds of spinning"], 3);
    let cells = json["parts"][1]["run"]["cells"].as_array().unwrap();
    let mut specimens: Vec<&str> = cells.iter().map(|cell| cell["specimen"].as_str().unwrap()).collect();
    specimens.dedup();
    specimens.sort_unstable();
    specimens.dedup();
    assert_eq!(specimens, ["kernel-futex", "kernel-mutex-0", "kernel-mutex-200", "kernel-mutex-30"]);
    let page = fs::read_to_string(file("k.html")).unwrap();
    assert!(page.contains("Published, and here") && page.contains("To repeat it alone"));

    let record = flifo_record::Record::read(&file("experiment-kernel-mutex-2011.json")).unwrap();
    assert_eq!(record.claims.len(), json["claims"].as_array().unwrap().len());
    let again = flifo().arg("report").arg(file("k.json")).output().unwrap();
    assert_eq!(again.status.code(), Some(0));
    assert!(
        text.ends_with(&*String::from_utf8_lossy(&again.stdout)),
        "a saved experiment reads as it was shown"
    );
    let refused = refused(flifo().arg("report").arg(file("k.json")).arg("--svg").arg(file("k.svg")), 1);
    assert!(refused.contains("no picture"), "{refused}");
}

/// Every part is one cell with a series, the sizes of later parts follow from the first ones, and no sync flush happens
/// with adaptive flushing.
#[test]
fn the_study_of_instances_takes_its_sizes_from_the_machine() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str| temp.path().join(name);
    let mut command = experiment("buffer-pool-instances-2012", &file("data"));
    succeeds(command.arg("--json").arg(file("b.json")).arg("--html").arg(file("b.html")));
    let json = results(&file("b.json"));
    let parts = json["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 11);
    for part in parts {
        let (name, run) = (part["name"].as_str().unwrap(), &part["run"]);
        assert_eq!(run["cells"].as_array().unwrap().len(), 1, "{name}");
        let rounds = run["cells"][0]["rounds"].as_array().unwrap();
        assert!(rounds.len() == 2 && rounds[1]["series"]["points"].as_array().unwrap().len() == 10, "{name}");
        let instances = run["settings"]["buffer_pool_instances"].as_u64().unwrap();
        assert!(name.contains(&format!("{instances} instance")), "{name}: {instances}");
        let adaptive = run["settings"]["flush_mode"] == "adaptive";
        assert!(!adaptive || run["cells"][0]["redo_hard_stops_sum"] == 0, "{name}");
        assert!(!adaptive || rounds.iter().all(|round| round["sync_flush_waits"] == 0), "{name}");
        assert!(!adaptive || name.contains("adaptive") || name.starts_with("db-stress"), "{name}");
    }
    let pages = |name: &str| {
        let part = parts.iter().find(|part| part["name"] == format!("dbt2, 1 instance, {name}")).unwrap();
        part["run"]["settings"]["io_capacity_max"].as_u64().unwrap()
    };
    let (enough, below) = (
        pages("small redo log, sequential"),
        pages("small redo log, sequential, io_capacity_max below the need"),
    );
    assert!(below <= enough && enough < 20_000, "{below} and {enough}");
    let page = fs::read_to_string(file("b.html")).unwrap();
    assert!(page.contains("class=\"stack\"") && page.contains("8 instances"));
}

#[test]
fn all_studies_have_a_page_and_an_index() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str| temp.path().join(name);
    let mut command = experiment("all", &file("data"));
    command.args(["--storage-size", "16M"]).arg("--html").arg(file("pages")).arg("--json").arg(file("json"));
    succeeds(&mut command);
    let json = |name: &str| results(&file("json").join(name));
    check(&json("flifo-2009.json"), &["the published settings"], 3);
    let parts = ["1 rollback segment", "128 rollback segments"];
    check(&json("thread-concurrency-2009.json"), &parts, 4);
    assert_eq!(json("linux-io-2012.json")["experiment"], "linux-io-2012");
    let index = fs::read_to_string(file("pages").join("index.html")).unwrap();
    for study in STUDIES {
        let page = format!("{study}.html");
        assert!(file("pages").join(&page).exists() && index.contains(&format!("href=\"{page}\"")), "{study}");
    }
    // The storage's test files are gone, the tables stay.
    let mut left: Vec<String> = fs::read_dir(file("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            "db-stress-100",
            "dbt2-2-small",
            "rows-2000-segments-1",
            "rows-2000-segments-128",
            "rows-2000-segments-16"
        ]
    );
}

#[test]
fn the_list_needs_no_directory() {
    let output = flifo().args(["experiment", "--list"]).current_dir("/").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for study in STUDIES {
        assert!(text.contains(study), "{text}");
    }
}
