//! `flifo dbt2` and `flifo db-stress` on a real server: both protocols, the same checks, tables that are not flifo's.

mod common;
#[path = "common/server.rs"]
mod server;

use std::process::Command;

use common::{fails, flifo, results, succeeds};
use server::Server;

const SHORT: [&str; 10] =
    ["--users", "1,8", "--time", "0.6", "--warmup", "0.1", "--rounds", "1", "--policy", "none"];

fn dbt2(server: &Server, warehouses: &str, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["dbt2", "--population", "small", "--warehouses", warehouses]).args(SHORT);
    command.args(["--target", &server.app(), "--admin-target", &server.root()]).args(more);
    command
}

fn db_stress(server: &Server, more: &[&str]) -> Command {
    let mut command = flifo();
    command.args(["db-stress", "--objects", "30"]).args(SHORT);
    command.args(["--target", &server.app(), "--admin-target", &server.root()]).args(more);
    command
}

#[test]
fn dbt2_over_both_protocols_ends_consistent_and_finds_what_is_not() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    let temp = tempfile::tempdir().unwrap();
    for protocol in ["prepared", "text"] {
        let json = temp.path().join(protocol);
        let mut command = dbt2(&server, "1", &["--protocol", protocol]);
        assert_eq!(succeeds(command.arg("--json").arg(&json)), "");
        let saved = results(&json);
        // On a busy machine a cell may see few transactions: together they see each of the frequent kinds.
        let mut committed = [0; 2];
        for cell in saved["cells"].as_array().unwrap() {
            assert_eq!((&cell["target"], &cell["front"]), (&"server".into(), &protocol.into()));
            let round = &cell["rounds"][0];
            assert!(
                round["server_commits_per_s"].is_f64() && round["new_orders_per_minute"].is_f64(),
                "{round}"
            );
            for (sum, kind) in committed.iter_mut().zip(round["kinds"].as_array().unwrap()) {
                *sum += kind["committed"].as_u64().unwrap();
            }
        }
        assert!(committed.iter().all(|sum| *sum > 0), "{committed:?}");
    }
    // The middle customer or the first, and remote lines or not: both ways end consistent.
    assert_eq!(succeeds(&mut dbt2(&server, "1", &["--quirks"])), "");
    let aborted = server.sql("SHOW GLOBAL STATUS LIKE 'Aborted_clients'");
    assert_eq!(aborted, "Aborted_clients\t0", "goodbyes are said");

    server.sql(
        "DELETE FROM sbtest.order_line WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 7 AND ol_number = 1",
    );
    let words = ["consistency condition 4: district 3 of warehouse 1"];
    fails(&mut dbt2(&server, "1", &[]), 3, &words);

    // Other data are the user's; a load that was cut off is done again.
    fails(&mut dbt2(&server, "2", &[]), 5, &["holds other data", "drop it"]);
    server.sql("ALTER TABLE sbtest.item COMMENT='flifo dbt2: loading'");
    let note = succeeds(&mut dbt2(&server, "1", &[]));
    assert!(note.contains("the last load was not completed"), "{note}");
    server.sql("ALTER TABLE sbtest.item COMMENT=''");
    fails(&mut dbt2(&server, "1", &[]), 5, &["item", "is not flifo's"]);
}

#[test]
fn db_stress_over_both_protocols_loses_no_row() {
    if !server::is_installed() {
        return;
    }
    let server = Server::start(&[]);
    for protocol in ["prepared", "text"] {
        assert_eq!(succeeds(&mut db_stress(&server, &["--protocol", protocol])), "");
    }
    server.sql("DELETE FROM sbtest.history WHERE ref_object = '0000000007' AND horder = 3");
    // Reads alone do not bring it back.
    fails(&mut db_stress(&server, &["--rw", "0"]), 3, &["1 of those not each of its 20 rows"]);
}
