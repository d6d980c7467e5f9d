//! The command on real MySQL servers, with times so small that the figures mean nothing.

use std::fs;
use std::process::{Command, Output, Stdio};

use flifo_mysql::Installation;
use serde_json::Value;
use tempfile::TempDir;

const TINY: &str =
    "--rows 1000 --buffer-pool 32M --log-file-size 16M --rounds 6 --slice 60 --settle 10 --warm-up 0.3";

fn bench(temp: &TempDir, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo-mysql-bench"));
    command.args(arguments.split_whitespace()).env("TMPDIR", temp.path());
    command.stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_variant_is_measured() {
    let plugin = flifo_mariadb::target_dir().join("mysql/flifo.so");
    if Installation::find().is_none() || !plugin.is_file() {
        assert!(std::env::var_os("FLIFO_REQUIRE_MYSQL").is_none(), "there is no MySQL server, or no plugin");
        eprintln!("skipped, there is no MySQL server, or no plugin for it: make mysql-test");
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let files = tempfile::tempdir().unwrap();
    let (json, record) = (files.path().join("out.json"), files.path().join("mysql.json"));
    let arguments = format!(
        "{TINY} --load hot-rows-100,durable-transaction --connections 3 --json {} --record={}",
        json.display(),
        record.display()
    );
    let output = bench(&temp, &arguments);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0, "servers left files");

    let results: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(results["product"], "MySQL");
    assert!(results["server_version"].as_str().unwrap().starts_with("9.7."), "{}", results["server_version"]);
    let names = |of: &Value, key: &str| -> Vec<String> {
        let all = of.as_array().unwrap().iter();
        all.map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&results["variants"], "name"), ["stock", "innodb", "pool", "plugin"]);
    let loads = names(&results["cells"], "load");
    assert_eq!(loads, ["hot-rows-100", "durable-transaction"], "{}", said(&output));
    for cell in results["cells"].as_array().unwrap() {
        for summary in cell["summaries"].as_array().unwrap() {
            for figure in ["throughput_per_s", "server_cpu_us_per_statement"] {
                assert!(summary[figure].as_f64().unwrap() > 0.0, "{figure} of {summary} in {cell}");
            }
        }
    }
    let record = fs::read_to_string(record).unwrap();
    assert!(record.contains("server CPU per statement") && record.contains("\"base\":\"stock\""), "{record}");
}

#[test]
fn what_cannot_be_is_one_line() {
    let temp = tempfile::tempdir().unwrap();
    for (arguments, told) in [
        ("--only fast", "no variant \"fast\""),
        ("--only stock", "two or more"),
        ("--load fast", "durable-transaction"),
        ("--json /nowhere/at/all.json", "/nowhere/at/all.json"),
    ] {
        let output = bench(&temp, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", said(&output));
        assert!(said(&output).contains(told), "{arguments}: {}", said(&output));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo-mysql-bench"));
    command.arg("--quick").env("FLIFO_MYSQL_ROOT", "/nowhere").stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("run tools/mysql-root /nowhere"), "{}", said(&output));
}

#[test]
fn the_help_names_the_variants() {
    let temp = tempfile::tempdir().unwrap();
    let help = said(&bench(&temp, "--help"));
    for part in ["innodb_thread_concurrency = 8", "thread_pool.so", "figures/NAME.json", "--quick"] {
        assert!(help.contains(part), "{part} is missing in\n{help}");
    }
    assert!(!help.contains("bench-mariadb"), "{help}");
}
