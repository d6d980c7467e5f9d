//! docs/mysql.md is true: what it tells a DBA to type works on a real server, and its tables name what the plugin has, with the defaults
//! that it has.

use std::collections::BTreeSet;
use std::process::Command;

use flifo_mysql::guide::{Guide, ask};
use flifo_mysql::{Installation, Options, PrivateServer};

use super::stage::Alone;
use super::support::{Queryable, end, until};

pub(crate) fn alone() -> Alone {
    Alone {
        name: "guide",
        tests: &[
            ("its_commands_work", its_commands_work),
            ("installed_and_in_the_option_file", installed_and_in_the_option_file),
            ("its_tables_are_complete", its_tables_are_complete),
            ("the_lines_it_explains_are_the_plugins", |_| the_lines_it_explains_are_the_plugins()),
        ],
    }
}

const GUIDE: Guide = Guide(include_str!("../../../../docs/mysql.md"));

/// From a server without the plugin to the effect and back.
fn its_commands_work(installation: &Installation) {
    let server = PrivateServer::start(installation, &[]).unwrap();
    let mut root = server.connect("root").unwrap();
    let statements = GUIDE.statements();
    assert!(statements.len() > 15);
    let loads: Vec<&str> =
        GUIDE.blocks("sh").into_iter().filter(|block| block.contains("mysqlslap")).collect();
    assert_eq!(loads.len(), 1);
    for (statement, error) in statements {
        // The load comes after its table.
        if statement.starts_with("DROP USER") {
            run_load(installation, &server, loads[0]);
        }
        assert_eq!(ask(&mut root, &statement).err(), error, "{statement}");
        if statement.starts_with("INSTALL") {
            let active = ask(
                &mut root,
                "SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'flifo'",
            );
            assert_eq!(active, Ok(vec![vec!["'ACTIVE'".to_owned()]]));
        }
    }
    // A connection that used the plugin keeps it.
    drop(root);
    let removes = GUIDE.blocks("sh").into_iter().find(|block| block.contains("UNINSTALL")).unwrap();
    run_shell(installation, &server, removes);
    until("the last block takes it away", || {
        ask(&mut server.connect("root").unwrap(), "SHOW GLOBAL STATUS LIKE 'Flifo%'") == Ok(Vec::new())
    });
    end(server);
}

/// Shorter, and with this server's programs.
fn run_load(installation: &Installation, server: &PrivateServer, script: &str) {
    let script = script.replace("=500", "=50").replace("=50000", "=5000");
    let text = run_shell(installation, server, &script);
    assert_eq!(text.matches("Average number of seconds to run all queries").count(), 2, "{text}");
    let done: Option<u32> =
        server.connect("root").unwrap().query_first("SELECT n FROM flifo_trial.counters").unwrap();
    assert_eq!(done, Some(2 * 5000));
    assert!(server.status_number("Flifo_admitted").unwrap() > 0, "{text}");
}

/// Runs commands with this server's programs, and returns what they print.
fn run_shell(installation: &Installation, server: &PrivateServer, script: &str) -> String {
    let mut lines = String::new();
    for line in script.lines() {
        let (program, arguments) = line.split_once(' ').unwrap();
        let program = installation.folder().join(program);
        lines += &format!(
            "{} --no-defaults --socket={} {arguments}\n",
            program.display(),
            server.socket().display()
        );
    }
    let output = Command::new("bash").arg("-ec").arg(&lines).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
    text
}

/// After INSTALL in a running server, and with the option file, the next start finds the plugin named twice.
fn installed_and_in_the_option_file(installation: &Installation) {
    let mut before = PrivateServer::start(installation, &[]).unwrap();
    before.install_plugin().unwrap();
    assert!(before.shutdown());
    let data = before.data_folder();
    let server = PrivateServer::start_with(
        installation,
        &Options::new().arguments(["--plugin-load-add=flifo.so"]).data(data),
    )
    .unwrap();
    let rows = ask(
        &mut server.connect("root").unwrap(),
        "SELECT p.name, PLUGIN_STATUS FROM mysql.plugin p JOIN information_schema.PLUGINS ON PLUGIN_NAME = p.name
         WHERE p.name = 'flifo'",
    );
    assert_eq!(rows, Ok(vec![vec!["'flifo'".to_owned(), "'ACTIVE'".to_owned()]]));
    let log = server.error_log();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("[ERROR]")).collect();
    assert!(matches!(errors[..], [line] if line.ends_with(ALREADY)), "{errors:?}");
    assert!(
        GUIDE.table("| symptom |").iter().any(|(symptom, _)| symptom.contains(ALREADY.trim_end_matches('.')))
    );
}

/// What the server says then; the plugin works.
const ALREADY: &str = "Function 'flifo' already exists.";

fn its_tables_are_complete(installation: &Installation) {
    let server = PrivateServer::start(installation, &["--plugin-load-add=flifo.so"]).unwrap();
    let mut root = server.connect("root").unwrap();
    // Of a setting without bounds the server shows 0 and 0.
    let there: Vec<(String, String, String)> = root
        .query(
            "SELECT VARIABLE_NAME, MIN_VALUE, MAX_VALUE FROM performance_schema.variables_info WHERE VARIABLE_NAME LIKE 'flifo%'",
        )
        .unwrap();
    let settings = GUIDE.rows("| setting | min | default | max |");
    assert_eq!(settings.len(), there.len());
    for (name, least, most) in there {
        let row = settings.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name} is missing"));
        if most != "0" {
            assert_eq!((row[1], row[3]), (least.as_str(), most.as_str()), "{name}");
        }
        root.query_drop(format!("SET GLOBAL {name} = DEFAULT")).unwrap();
        let value: (String, String) =
            root.query_first(format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).unwrap().unwrap();
        assert_eq!(row[2], value.1, "{name}");
    }
    let there: Vec<(String, String)> = root.query("SHOW GLOBAL STATUS LIKE 'Flifo%'").unwrap();
    let there: BTreeSet<&str> = there.iter().map(|(name, _)| name.as_str()).collect();
    let described: BTreeSet<&str> =
        GUIDE.table("| status variable |").into_iter().map(|(name, _)| name).collect();
    assert_eq!(described, there);
    drop(root);
    end(server);
}

fn the_lines_it_explains_are_the_plugins() {
    let sources = [include_str!("../../../../plugin-core/src/queueing.cc")];
    GUIDE.lines_are_of(&[("| error |", 1)], 2, &sources);
}
