//! The help of every command.

mod common;

use common::flifo;
use common::golden::Cases;

const COMMANDS: [&[&str]; 13] = [
    &[],
    &["sweep"],
    &["dbt2"],
    &["db-stress"],
    &["bench"],
    &["bench", "admission"],
    &["iobench"],
    &["experiment"],
    &["experiment", "linux-io-2012"],
    &["check"],
    &["stat"],
    &["report"],
    &["figures"],
];

#[test]
fn help_reads_as_its_golden_files() {
    for command in COMMANDS {
        let mut cases = Cases::default();
        for option in ["-h", "--help"] {
            // The width is the default one, whatever the shell says.
            let output = flifo().args(command).arg(option).env_remove("COLUMNS").output().unwrap();
            assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{command:?}");
            cases.add(option, String::from_utf8_lossy(&output.stdout));
        }
        let name: Vec<&str> = ["help"].iter().chain(command).copied().collect();
        cases.check(&name.join("-"));
    }
}

#[test]
fn every_command_of_the_help_is_in_the_list() {
    let output = flifo().arg("--help").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, commands) = text.split_once("Commands:\n").unwrap();
    let lines = commands.lines().take_while(|line| !line.is_empty());
    let names: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    let missing: Vec<&&str> = names.iter().filter(|name| !COMMANDS.contains(&&[**name][..])).collect();
    assert!(names.len() > 5 && missing.is_empty(), "not in COMMANDS of this test: {missing:?} of {names:?}");
}
