//! docs/mariadb.md and docs/mariadb-internals.md are true: what it tells a DBA to type works on a real server, and its tables name what the plugin
//! has, with the defaults that it has.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use flifo_mariadb::guide::{Guide, ask};
use flifo_mariadb::mysql::prelude::Queryable;
use flifo_mariadb::{Ended, Options, Plugin, PrivateServer, client};

const GUIDE: Guide = Guide(concat!(
    include_str!("../../../docs/mariadb.md"),
    include_str!("../../../docs/mariadb-internals.md")
));

#[test]
fn its_commands_work() {
    let server = PrivateServer::start(Options::new().plugin(Plugin::AtHand)).unwrap();
    let mut root = server.connect().unwrap();
    root.query_drop("CREATE DATABASE shop").unwrap();
    assert!(GUIDE.blocks("sql").len() >= 7);
    for (statement, error) in GUIDE.statements() {
        assert_eq!(ask(&mut root, &statement).err(), error, "{statement}");
        if statement.starts_with("INSTALL") {
            let active = ask(
                &mut root,
                "SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'flifo'",
            );
            assert_eq!(active, Ok(vec![vec!["'ACTIVE'".to_owned()]]));
        }
    }
    let left = ask(&mut root, "SHOW GLOBAL STATUS LIKE 'Flifo%'");
    assert_eq!(left, Ok(Vec::new()), "the last block takes it away");
}

/// After INSTALL in a running server, and with the option file, the next start finds the plugin named twice.
#[test]
fn installed_and_in_the_option_file() {
    const BOUND: Duration = Duration::from_secs(60);
    let mut before = PrivateServer::start(Options::new().plugin(Plugin::AtHand)).unwrap();
    before.connect().unwrap().query_drop("INSTALL SONAME 'flifo'").unwrap();
    assert_eq!(before.shutdown(BOUND), Ended::Itself(0));
    let server = PrivateServer::start(Options::new().plugin(Plugin::Loaded).data(before.data_dir())).unwrap();
    let mut root = server.connect().unwrap();
    let rows = ask(
        &mut root,
        "SELECT p.name, PLUGIN_STATUS FROM mysql.plugin p JOIN information_schema.PLUGINS ON PLUGIN_NAME = p.name
         WHERE p.name = 'flifo'",
    );
    assert_eq!(rows, Ok(vec![vec!["'flifo'".to_owned(), "'ACTIVE'".to_owned()]]));
    let log = server.error_log();
    assert!(!log.contains("[ERROR]"), "{log}");
    let told = GUIDE.table("| line |");
    for line in log.lines().filter(|line| line.contains("'flifo'")) {
        assert!(told.iter().any(|(text, _)| line.contains(text)), "not in the guide: {line}");
    }
    assert!(log.contains("Plugin 'flifo' already installed"), "{log}");
}

#[test]
fn the_queue_can_be_looked_at() {
    let server = PrivateServer::start(Options::new().plugin(Plugin::Loaded)).unwrap();
    let script =
        GUIDE.blocks("sh").into_iter().find(|block| block.contains("Waiting for admission")).unwrap();
    // Shorter, and until it is there rather than for a second.
    let there =
        "for _ in {1..300}; do mariadb -e \"SHOW PROCESSLIST\" | grep -q admission && break; sleep 0.1; done";
    let script = script.replace("20000000", "6000000").replace("sleep 1\n", &format!("{there}\n"));
    let shell = client().unwrap();
    let at_server = format!("{} --no-defaults --socket={}", shell.display(), server.socket().display());
    let output = Command::new("bash")
        .arg("-ec")
        .arg(script.replace("mariadb ", &format!("{at_server} ")))
        .env("USER", "root")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Waiting for admission"), "{text}");
    assert_eq!(server.status("Flifo_queued").unwrap(), "0");
}

#[test]
fn its_tables_are_complete() {
    let server = PrivateServer::start(Options::new().plugin(Plugin::Loaded)).unwrap();
    let mut root = server.connect().unwrap();

    let question = "SELECT LOWER(VARIABLE_NAME), NUMERIC_MIN_VALUE, DEFAULT_VALUE, NUMERIC_MAX_VALUE
        FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME LIKE 'flifo%'";
    let there: Vec<(String, Option<String>, String, Option<String>)> = root.query(question).unwrap();
    let settings = GUIDE.rows("| setting | min | default | max |");
    assert_eq!(settings.len(), there.len());
    for (name, least, default, most) in there {
        let row = settings.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(row[2], default, "{name}");
        // What is no number has no bounds that the server knows.
        for (bound, told) in [(least, row[1]), (most, row[3])] {
            assert!(bound.is_none_or(|bound| bound == told), "{name}: {told}");
        }
    }

    let there: Vec<(String, String)> = root.query("SHOW GLOBAL STATUS LIKE 'Flifo%'").unwrap();
    let there: BTreeSet<String> = there.into_iter().map(|(name, _)| name).collect();
    let told: BTreeSet<String> =
        GUIDE.table("| status variable |").into_iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(told, there);
}

#[test]
fn the_lines_it_explains_are_the_plugins() {
    let sources = [
        include_str!("../../../plugin-core/src/core.cc"),
        include_str!("../../../plugin-core/src/queueing.cc"),
        include_str!("../../../plugin-core/src/settings.cc"),
        include_str!("../../admission/src/events.cc"),
        include_str!("../../admission/src/exports.cc"),
        include_str!("../../admission/src/plugin.cc"),
        include_str!("../../admission/src/server.cc"),
        include_str!("../../admission/src/variables.cc"),
    ];
    GUIDE.lines_are_of(&[("| line |", 0), ("| error |", 1)], 8, &sources);
}
