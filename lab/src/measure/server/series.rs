//! Readings of a live server's counters for a time series.

use super::session::{Row, Session, quoted};
use super::wire::WireError;
use crate::results::series::Reading;

/// The server's status variables with their factors, and the keys under which a point has them.
const COUNTERS: [(&str, u64, &str); 9] = [
    // MariaDB's alone: the age, the history, and the writes for free frames.
    ("Innodb_checkpoint_age", 1, "log_lsn_checkpoint_age"),
    ("Innodb_history_list_length", 1, "trx_rseg_history_len"),
    ("Innodb_buffer_pool_pages_LRU_flushed", 1, "buffer_LRU_batch_flush_total_pages"),
    ("Innodb_buffer_pool_pages_flushed", 1, "buffer_pages_written"),
    ("Innodb_buffer_pool_pages_dirty", 1, "buffer_pool_pages_dirty"),
    ("Innodb_buffer_pool_wait_free", 1, "buffer_pool_wait_free"),
    ("Innodb_log_waits", 1, "log_waits"),
    ("Innodb_os_log_written", 1, "os_log_bytes_written"),
    // In milliseconds.
    ("Innodb_row_lock_time", 1_000_000, "wait_row_lock_ns"),
];
/// MySQL's age is the distance of these two.
const CURRENT_LSN: &str = "Innodb_redo_log_current_lsn";
const CHECKPOINT_LSN: &str = "Innodb_redo_log_checkpoint_lsn";

/// Asks the server. What it does not count is left out.
pub(super) fn read(session: &mut Session) -> Result<Reading, WireError> {
    let names = COUNTERS.iter().map(|(name, ..)| *name).chain([CURRENT_LSN, CHECKPOINT_LSN]);
    let names: Vec<String> = names.map(quoted).collect();
    let rows = session.query(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({})", names.join(",")))?;
    Ok(reading(&rows))
}

fn reading(rows: &[Row]) -> Reading {
    let status = |name: &str| {
        rows.iter().find_map(|row| match &row[..] {
            [Some(found), Some(value)] if found == name => value.parse::<u64>().ok(),
            _ => None,
        })
    };
    let age = status(CURRENT_LSN).zip(status(CHECKPOINT_LSN)).map(|(now, then)| now.saturating_sub(then));
    let counters = COUNTERS
        .iter()
        .filter_map(|&(name, factor, key)| Some((key.to_owned(), status(name)?.saturating_mul(factor))));
    counters.chain(age.map(|age| ("log_lsn_checkpoint_age".to_owned(), age))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(status: &[(&str, &str)]) -> Vec<Row> {
        status.iter().map(|(name, value)| vec![Some((*name).to_owned()), Some((*value).to_owned())]).collect()
    }

    #[test]
    fn mariadb_s_counters_have_their_keys() {
        let before =
            reading(&rows(&[("Innodb_buffer_pool_pages_flushed", "10"), ("Innodb_row_lock_time", "5")]));
        let after = reading(&rows(&[
            ("Innodb_buffer_pool_pages_flushed", "25"),
            ("Innodb_row_lock_time", "12"),
            ("Innodb_checkpoint_age", "4096"),
            ("Innodb_log_waits", "no number"),
        ]));
        let point = after.since(&before);
        assert_eq!((point.buffer_pages_written, point.log_lsn_checkpoint_age), (Some(15), Some(4096)));
        assert_eq!(point.wait_ms, [("row_lock".to_owned(), 7.0)].into());
        assert_eq!((point.log_waits, point.buffer_flush_sync_waits), (None, None));
    }

    #[test]
    fn mysql_s_age_is_the_distance_of_two_lsns() {
        let now = reading(&rows(&[(CURRENT_LSN, "9000"), (CHECKPOINT_LSN, "2000")]));
        assert_eq!(now.get("log_lsn_checkpoint_age"), Some(7000));
        assert_eq!(reading(&rows(&[(CURRENT_LSN, "9000")])).get("log_lsn_checkpoint_age"), None);
    }
}
