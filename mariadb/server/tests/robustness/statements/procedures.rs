//! Statements within statements: procedures, triggers, functions, events.

use super::*;

pub(super) fn procedures(server: &PrivateServer) {
    one_slot(server);
    let mut root = admin(server);
    for text in [
        "plain() BEGIN UPDATE t SET k = k + 1 WHERE id = 1; SELECT k FROM t WHERE id = 1; END",
        "fails() BEGIN UPDATE t SET k = k + 1 WHERE id = 1; INSERT INTO t VALUES (1, 1, ''); DO 1; END",
        "handles() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 1;
            INSERT INTO t VALUES (1, 1, ''); SELECT no_such_column FROM t; SELECT 1; END",
        "exits() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 'caught'; END;
            INSERT INTO t VALUES (1, 1, ''); SELECT 'not reached'; END",
        "resignals() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION RESIGNAL SET MESSAGE_TEXT = 'again';
            INSERT INTO t VALUES (1, 1, ''); END",
        "nests(depth INT) BEGIN IF depth > 0 THEN CALL nests(depth - 1); ELSE CALL fails(); END IF; END",
        "loops() BEGIN DECLARE i INT DEFAULT 0;
            WHILE i < 100 DO UPDATE t SET k = k + 1 WHERE id = 1 + i; SET i = i + 1; END WHILE; END",
        "fetches() BEGIN DECLARE done INT DEFAULT 0; DECLARE v INT;
            DECLARE c CURSOR FOR SELECT id FROM t; DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
            OPEN c; REPEAT FETCH c INTO v; UNTIL done END REPEAT; CLOSE c; END",
        "prepares() BEGIN PREPARE p FROM 'SELECT 1'; EXECUTE p; EXECUTE no_such_statement; END",
        "sleeps() BEGIN DO SLEEP(0.01); SELECT 1; DO SLEEP(0.01); END",
        "transacts() BEGIN START TRANSACTION; UPDATE t SET k = k + 1 WHERE id = 1; COMMIT; END",
    ] {
        root.query_drop(format!("CREATE OR REPLACE PROCEDURE test.{text}")).unwrap();
    }
    let mut client = app(server);
    check(server, &mut client, "SET max_sp_recursion_depth = 20", 0);
    for _ in 0..2 {
        for (call, error) in [
            ("plain()", 0),
            ("fails()", 1062),
            ("handles()", 0),
            ("exits()", 0),
            ("resignals()", 1062),
            ("nests(5)", 1062),
            ("nests(30)", 1456),
            ("loops()", 0),
            ("fetches()", 0),
            ("prepares()", 1243),
            ("sleeps()", 0),
            ("transacts()", 0),
            ("plain(1)", 1318),
        ] {
            check(server, &mut client, &format!("CALL {call}"), error);
            check_prepared(server, &mut client, &format!("CALL {call}"), error);
        }
    }
    for statement in [
        "BEGIN NOT ATOMIC DO 1; DO 2; END",
        "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 1; SELECT no_such_column; END",
    ] {
        check(server, &mut client, statement, 0);
    }
    check(server, &mut client, "BEGIN NOT ATOMIC DO 1; SELECT no_such_column; END", 1054);
}

/// Out of tickets a procedure queues between its statements: others come between, and all get through.
pub(super) fn procedures_out_of_tickets(server: &PrivateServer) {
    one_slot(server);
    hundred_updates(server);
    for policy in ["quantum", "flifo", "fifo"] {
        set(server, "policy", policy);
        let taken = Blocked::start(server);
        until_blocked(server, taken.id());
        let calls: Vec<Running> = (0..8)
            .map(|at| Running::start(server, &format!("CALL long_hundred({})", 100 + at % 4)))
            .collect();
        until("all queue", || server.status_number("Flifo_queued").unwrap() == 8);
        // In `flifo` a procedure may barge past those that it has just woken, so it need not queue itself.
        let counted = if policy == "flifo" { "Flifo_admitted" } else { "Flifo_admitted_from_queue" };
        let before = server.status_number(counted).unwrap();
        drop(taken);
        for call in calls {
            call.end().unwrap();
        }
        // Not only at the beginning.
        assert!(server.status_number(counted).unwrap() - before > 8, "{policy}");
        empty(server);
    }
    let sum: u64 =
        app(server).query_first("SELECT SUM(k) FROM t WHERE id BETWEEN 100 AND 103").unwrap().unwrap();
    assert_eq!(sum, 3 * 8 * 100);
}

/// An EXECUTE that fails within a procedure is not the procedure's end, and neither is another error that is caught.
pub(super) fn procedures_go_on_after_errors(server: &PrivateServer) {
    hundred_updates(server);
    let mut root = admin(server);
    for text in [
        "executes() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 1; EXECUTE nobody; CALL hundred(1); END",
        "sets() BEGIN DECLARE n INT; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET n = 0;
            SET n = (SELECT id FROM t); CALL hundred(1); END",
    ] {
        root.query_drop(format!("CREATE OR REPLACE PROCEDURE test.{text}")).unwrap();
    }
    one_slot(server);
    let mut client = Wire::connect(server).unwrap();
    for packet in ["CALL executes()", "CALL sets()", "DO 1; CALL executes()", "DO 1; CALL sets()"] {
        let statements = packet.split(';').count() as u64;
        let admitted = statements_admitted(server, || drop(client.query(packet).unwrap()));
        assert_eq!(admitted, statements, "{packet}");
    }
}

/// A procedure of a hundred updates, and one that uses up its tickets before.
fn hundred_updates(server: &PrivateServer) {
    spends_tickets(server);
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE PROCEDURE test.hundred(at INT) BEGIN DECLARE i INT DEFAULT 0;
         WHILE i < 100 DO UPDATE t SET k = k + 1 WHERE id = at; SET i = i + 1; END WHILE; END",
        "CREATE OR REPLACE PROCEDURE test.long_hundred(at INT)
         BEGIN CALL spends_tickets(); CALL hundred(at); END",
        "UPDATE test.t SET k = 0",
    ] {
        root.query_drop(statement).unwrap();
    }
}

/// What was admitted once is queued again when its tickets are used up, but not refused. With tickets enough it does
/// not queue again.
pub(super) fn procedures_are_refused_as_a_whole(server: &PrivateServer) {
    hundred_updates(server);
    one_slot(server);
    let mut client = app(server);
    assert_eq!(statements_admitted(server, || run(&mut client, "CALL hundred(1)").unwrap()), 1);

    admin(server).query_drop("UPDATE test.t SET k = 0").unwrap();
    set_number(server, "queue_timeout", 1);
    set_number(server, "max_queue", 2);
    let calls: Vec<Running> = (0..16).map(|_| Running::start(server, "CALL long_hundred(1)")).collect();
    let codes: Vec<u16> = calls.into_iter().map(|call| code(call.end())).collect();
    assert!(codes.iter().all(|code| [0, REFUSED].contains(code)), "{codes:?}");
    let done = codes.iter().filter(|&&code| code == 0).count();
    assert!(done > 0, "{codes:?}");
    let sum: usize = admin(server).query_first("SELECT k FROM test.t WHERE id = 1").unwrap().unwrap();
    assert_eq!(sum, done * 100, "{codes:?}");

    // The server looks for a kill late when a statement is prepared, and forgets one when what ran touched no table.
    touches_no_table_at_first(server);
    let mut client = app(server);
    let holder = Holder::of_the_only_slot(server);
    set_number(server, "queue_timeout", 1);
    assert_eq!(code(execute(&mut client, "CALL touches_no_table_at_first()")), REFUSED);
    // Nor what it evaluates between two statements.
    assert_eq!(code(execute(&mut client, "CALL evaluates()")), REFUSED);
    drop(holder);
    let done: usize = admin(server).query_first("SELECT k FROM test.t WHERE id = 8").unwrap().unwrap();
    assert_eq!(done, 0, "a procedure that was refused has run");
    empty(server);
}

/// Procedures whose first statement the server finishes although it was killed.
pub(in super::super) fn touches_no_table_at_first(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE PROCEDURE test.touches_no_table_at_first()
         BEGIN SET @z = 1; START TRANSACTION; UPDATE t SET k = k + 100 WHERE id = 8; COMMIT; END",
        "CREATE OR REPLACE PROCEDURE test.evaluates()
         BEGIN DECLARE n INT; SET @z = 1; SET n = (SELECT SUM(k) FROM t); END",
        "UPDATE test.t SET k = 0 WHERE id = 8",
    ] {
        root.query_drop(statement).unwrap();
    }
}

/// The same of a procedure that is not the first of its packet: its statements end, and it goes on.
pub(super) fn procedures_within_packets(server: &PrivateServer) {
    hundred_updates(server);
    one_slot(server);
    let mut client = Wire::connect(server).unwrap();
    for (packet, statements) in [
        ("DO 1; CALL hundred(1)", 2),
        ("DO 1; CALL hundred(1); DO 2", 3),
        ("DO 1; SELECT 1; CALL hundred(1)", 3),
    ] {
        let admitted = statements_admitted(server, || drop(client.query(packet).unwrap()));
        assert_eq!(admitted, statements, "{packet}");
    }

    admin(server).query_drop("UPDATE test.t SET k = 0").unwrap();
    set_number(server, "queue_timeout", 1);
    set_number(server, "max_queue", 2);
    let packets: Vec<Running> = (0..16).map(|_| Running::start(server, "DO 1; CALL hundred(1)")).collect();
    let codes: Vec<u16> = packets.into_iter().map(|packet| code(packet.end())).collect();
    assert!(codes.iter().all(|code| [0, REFUSED].contains(code)), "{codes:?}");
    let sum: usize = admin(server).query_first("SELECT k FROM test.t WHERE id = 1").unwrap().unwrap();
    let done = codes.iter().filter(|&&code| code == 0).count();
    assert_eq!(sum, done * 100, "{codes:?}");
}

pub(super) fn triggers_functions_events(server: &PrivateServer) {
    one_slot(server);
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE TABLE test.log (id INT, at TIMESTAMP)",
        "CREATE OR REPLACE TABLE test.triggered (id INT PRIMARY KEY)",
        "CREATE TRIGGER test.refuses BEFORE INSERT ON test.triggered FOR EACH ROW
         IF NEW.id < 0 THEN SIGNAL SQLSTATE '45000'; ELSE INSERT INTO test.log VALUES (NEW.id, NOW()); END IF",
        "CREATE OR REPLACE FUNCTION test.f(a INT) RETURNS INT
         BEGIN DECLARE n INT; SELECT COUNT(*) INTO n FROM test.log; RETURN n + a; END",
        "CREATE OR REPLACE FUNCTION test.g(a INT) RETURNS INT BEGIN INSERT INTO t VALUES (1, 1, ''); RETURN 1; END",
    ] {
        root.query_drop(statement).unwrap();
    }
    let mut client = app(server);
    for (statement, error) in [
        ("INSERT INTO triggered VALUES (1), (2)", 0),
        ("INSERT INTO triggered VALUES (-1)", 1644),
        ("INSERT INTO triggered VALUES (3), (-1), (4)", 1644),
        ("INSERT IGNORE INTO triggered VALUES (1)", 0),
        ("INSERT INTO triggered VALUES (1)", 1062),
        ("SELECT f(id) FROM t LIMIT 10", 0),
        ("SELECT g(1)", 1062),
        ("UPDATE log SET id = g(1)", 1062),
    ] {
        check(server, &mut client, statement, error);
        let again = if statement.contains("(1), (2)") { 1062 } else { error };
        check_prepared(server, &mut client, statement, again);
    }
    // Events are the server's own and bypass admission: this one runs while the only slot is taken.
    let before: u64 = root.query_first("SELECT COUNT(*) FROM test.log").unwrap().unwrap();
    let holder = Holder::of_the_only_slot(server);
    root.query_drop(
        "CREATE DEFINER = app@localhost EVENT test.writes ON SCHEDULE AT NOW() ON COMPLETION NOT PRESERVE
         DO BEGIN INSERT INTO test.log VALUES (0, NOW()); DO SLEEP(0.01); END",
    )
    .unwrap();
    until("the event has written", || {
        let after: u64 = root.query_first("SELECT COUNT(*) FROM test.log").unwrap().unwrap();
        after > before
    });
    assert!(holder.still_holds());
}
