//! Prepared statements: by the protocol, as text, in bulk, with cursors.

use super::*;

pub(super) fn prepared(server: &PrivateServer) {
    one_slot(server);
    let mut root = admin(server);
    let mut client = Wire::connect(server).unwrap();
    let done = |replies: &[Reply], expected: &[Reply]| {
        let replies: Vec<Reply> = replies.iter().cloned().map(without_text).collect();
        assert_eq!(replies, expected);
        empty(server);
    };
    for _ in 0..5 {
        let select = client.prepare("SELECT * FROM t WHERE id < 11").unwrap().unwrap();
        empty(server);
        for _ in 0..3 {
            client.send_execute(select, false).unwrap();
            done(&client.replies().unwrap(), &[Reply::Rows(10)]);
        }
        let insert = client.prepare("INSERT INTO t VALUES (1, 1, '')").unwrap().unwrap();
        client.send_execute(insert, false).unwrap();
        done(&client.replies().unwrap(), &[failed(1062)]);
        // It does not parse, the table is gone, the statement never was or is closed.
        assert!(matches!(client.prepare("SELEC 1").unwrap(), Err(Reply::Error(1064, _))));
        assert!(matches!(client.prepare("SELECT * FROM no_such_table").unwrap(), Err(Reply::Error(1146, _))));
        empty(server);
        root.query_drop("CREATE TABLE test.gone (id INT)").unwrap();
        let gone = client.prepare("SELECT * FROM gone").unwrap().unwrap();
        root.query_drop("DROP TABLE test.gone").unwrap();
        client.send_execute(gone, false).unwrap();
        done(&client.replies().unwrap(), &[failed(1146)]);
        client.send(command::STMT_CLOSE, &select.to_le_bytes()).unwrap();
        for nobody in [select, 999_999] {
            client.send_execute(nobody, false).unwrap();
            done(&client.replies().unwrap(), &[failed(1243)]);
        }
        client.send(command::STMT_RESET, &insert.to_le_bytes()).unwrap();
        done(&client.replies().unwrap(), &[Reply::Done]);
        client.send(command::STMT_RESET, &999_999u32.to_le_bytes()).unwrap();
        done(&client.replies().unwrap(), &[failed(1243)]);
        // A packet that ends too early.
        client.send(command::STMT_EXECUTE, &[1, 0]).unwrap();
        let replies = client.replies().unwrap();
        assert!(matches!(replies[..], [Reply::Error(..)]), "{replies:?}");
        empty(server);
    }
    let mut library = app(server);
    for id in 1..100 {
        let row: Option<(u32, u32)> = library.exec_first("SELECT id, k FROM t WHERE id = ?", (id,)).unwrap();
        assert_eq!(row.unwrap().0, id);
    }
    empty(server);
}

pub(super) fn prepared_as_text(server: &PrivateServer) {
    one_slot(server);
    admin(server).query_drop("CREATE OR REPLACE FUNCTION test.one(a INT) RETURNS INT RETURN 1").unwrap();
    let mut client = app(server);
    for _ in 0..5 {
        for (statement, error) in [
            ("PREPARE p FROM 'SELECT * FROM t WHERE id = ?'", 0),
            ("EXECUTE p USING 1", 0),
            ("EXECUTE p", 1210),
            ("EXECUTE p USING 1 2", 1064),
            ("EXECUTE p USING", 1064),
            ("EXECUTE p USING one(1)", 1970),
            ("EXECUTE p USING ROW(1, 2)", 1241),
            ("SET STATEMENT max_statement_time = 'x' FOR EXECUTE p USING 1", 1232),
            ("SET STATEMENT autocommit = 0 FOR EXECUTE p USING 1", 1971),
            ("EXECUTE p USING 1", 0),
            ("SET STATEMENT max_statement_time = 5 FOR EXECUTE p", 1210),
            ("DO 1; /*! EXECUTE p */; DO 2", 1210),
            ("EXECUTE nobody", 1243),
            ("EXECUTE nobody USING 1", 1243),
            ("PREPARE q FROM 'SELEC 1'", 1064),
            ("EXECUTE q", 1243),
            ("PREPARE q FROM 'INSERT INTO t VALUES (1, 1, 1)'", 0),
            ("EXECUTE q", 1062),
            ("EXECUTE IMMEDIATE 'SELECT 1'", 0),
            ("EXECUTE IMMEDIATE 'SELECT no_such_column'", 1054),
            ("EXECUTE IMMEDIATE 'EXECUTE nobody'", 1295),
            ("DEALLOCATE PREPARE p", 0),
            ("EXECUTE p USING 1", 1243),
        ] {
            check(server, &mut client, statement, error);
        }
    }
    // The last thing that a connection does.
    for _ in 0..20 {
        let mut client = Wire::connect(server).unwrap();
        let _ = client.query("EXECUTE nobody").unwrap();
        client.quit();
    }
    empty(server);
}

/// An EXECUTE and what it executes are one statement, however long their texts are.
pub(super) fn prepared_is_admitted_once(server: &PrivateServer) {
    one_slot(server);
    admin(server).query_drop("CREATE OR REPLACE PROCEDURE test.two() BEGIN DO 1; DO 2; END").unwrap();
    let mut client = Wire::connect(server).unwrap();
    for (packet, statements) in [
        ("EXECUTE IMMEDIATE 'DO 1'", 1),
        ("EXECUTE IMMEDIATE 'CALL two()'", 1),
        ("EXECUTE IMMEDIATE 'BEGIN NOT ATOMIC DO 1; DO 2; END'", 1),
        ("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1, 1, 1)'", 1),
        ("PREPARE p FROM 'CALL two()'", 1),
        ("EXECUTE p", 1),
        ("EXECUTE p /* whose text is a good deal longer than what it executes */", 1),
        ("EXECUTE p; EXECUTE p; DO 1", 3),
        ("DO 1; EXECUTE p; EXECUTE p", 3),
        ("DO 1; EXECUTE IMMEDIATE 'CALL two()'; DO 2", 3),
        ("DO 1; EXECUTE IMMEDIATE 'SELEC'; DO 2", 2),
        ("DO 1; EXECUTE nobody; DO 2", 2),
        ("DO 1; EXECUTE p USING 1; DO 2", 2),
        ("PREPARE q FROM 'INSERT INTO t VALUES (1, 1, 1)'; EXECUTE q; DO 2", 2),
    ] {
        let admitted = statements_admitted(server, || drop(client.query(packet).unwrap()));
        assert_eq!(admitted, statements, "{packet}");
    }
    // By the protocol they end with their own texts, also with values put in.
    let mut library = app(server);
    for id in [1, 1000] {
        let admitted = statements_admitted(server, || {
            library.exec_drop("SELECT * FROM t WHERE id = ? AND id < 2000", (id,)).unwrap();
        });
        assert_eq!(admitted, 1);
    }
}

pub(super) fn prepared_in_bulk(server: &PrivateServer) {
    one_slot(server);
    admin(server).query_drop("CREATE OR REPLACE TABLE test.bulk (id INT PRIMARY KEY)").unwrap();
    let mut client = Wire::connect(server).unwrap();
    let insert = client.prepare("INSERT INTO bulk VALUES (?)").unwrap().unwrap();
    for (values, expected) in [
        (vec![1, 2, 3], Reply::Done),
        (vec![4, 1, 5], failed(1062)),
        ((100..300).collect(), Reply::Done),
        (vec![1], failed(1062)),
    ] {
        client.send_bulk(insert, &values).unwrap();
        let replies: Vec<Reply> = client.replies().unwrap().into_iter().map(without_text).collect();
        assert_eq!(replies, [expected], "{values:?}");
        empty(server);
    }
    let rows: u32 = app(server).query_first("SELECT COUNT(*) FROM bulk").unwrap().unwrap();
    assert!(rows >= 203, "{rows}");
}

pub(super) fn cursors(server: &PrivateServer) {
    one_slot(server);
    let mut client = Wire::connect(server).unwrap();
    let other = &mut app(server);
    for _ in 0..3 {
        let statement = client.prepare("SELECT id, pad FROM t ORDER BY k, id").unwrap().unwrap();
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        empty(server);
        // Between two fetches others run.
        for rows in [1, 10, 100] {
            assert_eq!(client.fetch(statement, rows).unwrap(), Reply::Rows(u64::from(rows)));
            empty(server);
            check(server, other, "SELECT COUNT(*) FROM t", 0);
        }
        assert_eq!(client.fetch(statement, 100_000).unwrap(), Reply::Rows(ROWS as u64 - 111));
        assert!(
            matches!(client.fetch(statement, 1).unwrap(), Reply::Error(..)),
            "fetched from a closed cursor"
        );
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        assert_eq!(client.fetch(statement, 1).unwrap(), Reply::Rows(1));
        // Closed, reset, or run again while it is open.
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        client.send(command::STMT_RESET, &statement.to_le_bytes()).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Done]);
        client.send(command::STMT_CLOSE, &statement.to_le_bytes()).unwrap();
        assert!(matches!(client.fetch(statement, 1).unwrap(), Reply::Error(..)), "fetched from no statement");
        empty(server);
    }
    // Gone with a cursor open.
    for vanishes in [true, false] {
        let mut client = Wire::connect(server).unwrap();
        let statement = client.prepare("SELECT * FROM t").unwrap().unwrap();
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        if vanishes {
            client.vanish()
        } else {
            client.quit()
        }
        empty(server);
    }
}
