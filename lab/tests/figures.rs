//! `flifo figures` on a small repository.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// The records and pages of this repository.
fn copy() -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for folder in ["figures", "docs"] {
        fs::create_dir(temp.path().join(folder)).unwrap();
    }
    for entry in root.join("figures").read_dir().unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), temp.path().join("figures").join(entry.file_name())).unwrap();
    }
    fs::copy(root.join("docs/matrix.svg"), temp.path().join("docs/matrix.svg")).unwrap();
    fs::write(temp.path().join("README.md"), "# A page\n\n<!-- figures:sweep -->\n<!-- /figures -->\n")
        .unwrap();
    temp
}

fn figures(root: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flifo"))
        .arg("figures")
        .args(options)
        .arg("--root")
        .arg(root)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_stale_block_is_named_then_rendered() {
    let temp = copy();
    let page = temp.path().join("README.md");
    let before = fs::read_to_string(&page).unwrap();
    let checked = figures(temp.path(), &["--check"]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked));
    assert!(text(&checked).contains("README.md:3: the block figures:sweep\n"), "{}", text(&checked));
    assert!(text(&checked).contains("flifo figures"), "{}", text(&checked));
    assert_eq!(fs::read_to_string(&page).unwrap(), before, "--check writes nothing");

    let rendered = figures(temp.path(), &[]);
    assert_eq!(rendered.status.code(), Some(0), "{}", text(&rendered));
    assert!(fs::read_to_string(&page).unwrap().contains("| flifo / fifo |"));
    let checked = figures(temp.path(), &["--check"]);
    assert_eq!((checked.status.code(), text(&checked)), (Some(0), String::new()));

    // A picture is stale, too.
    fs::write(temp.path().join("docs/matrix.svg"), "<svg/>").unwrap();
    let checked = figures(temp.path(), &["--check"]);
    assert!(text(&checked).contains("docs/matrix.svg: the picture\n"), "{}", text(&checked));
}

#[test]
fn what_is_wrong_is_one_line_with_the_file() {
    let temp = copy();
    fs::write(temp.path().join("README.md"), "\n<!-- figures:speed -->\n<!-- /figures -->\n").unwrap();
    let output = figures(temp.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(said.starts_with("flifo: README.md:2: there is no block \"speed\"; the blocks are "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    fs::write(temp.path().join("figures/sweep.json"), "{\"schema\": 1").unwrap();
    let said = text(&figures(temp.path(), &[]));
    assert!(said.contains("figures/sweep.json: no record: ") && said.contains("--record"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// The help of each bench names the option and what it is for.
#[test]
fn the_benches_explain_record() {
    for bench in [&["sweep"][..], &["bench", "admission"], &["iobench"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_flifo")).args(bench).arg("--help").output().unwrap();
        let said = text(&output);
        assert!(said.contains("--record[=<DIR|FILE>]") && said.contains("figures/NAME.json"), "{said}");
    }
}

#[test]
fn a_bench_records_what_it_measured() {
    let temp = tempfile::tempdir().unwrap();
    let line =
        "bench admission --load empty --threads 2 --policy fifo,flifo --peer none --time 0.05 --rounds 2";
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo"));
    let output =
        command.args(line.split(' ')).arg(format!("--record={}", temp.path().display())).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("recorded in"), "{}", text(&output));
    let record = flifo_record::Record::read(&temp.path().join("admission.json")).unwrap();
    let key = flifo_record::Key::of("empty").at(2).variant("flifo");
    assert!(record.row(&key).is_some_and(|row| row.n == Some(2)), "{record:?}");
    assert!(record.row(&key.relative_to("fifo")).is_some(), "{record:?}");
    assert!(
        record.command.starts_with("flifo") || record.command.contains("bench admission"),
        "{}",
        record.command
    );

    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo"));
    let output = command.args(line.split(' ')).arg("--record=/no/such/folder/x.json").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("there is no folder /no/such/folder"), "{}", text(&output));
}
