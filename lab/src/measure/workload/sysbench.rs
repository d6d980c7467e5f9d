//! The statements of sysbench's OLTP tests, transaction by transaction.
//!
//! Keys are uniform (`--rand-type=uniform`), and a range always lies inside the table, so that every range costs the
//! same.

use super::Workload;
use super::statement::Kind;

/// Statements of a read-only transaction, in their order: without BEGIN and COMMIT (`--skip-trx`).
pub(super) const READ_ONLY: [Kind; 14] = {
    let mut kinds = [Kind::Point; 14];
    kinds[10] = Kind::SimpleRange;
    kinds[11] = Kind::SumRange;
    kinds[12] = Kind::OrderRange;
    kinds[13] = Kind::DistinctRange;
    kinds
};

/// Statements of a read-write transaction, in their order. The row that is deleted is inserted again.
pub(super) const READ_WRITE: [Kind; 20] = {
    let mut kinds = [Kind::Begin; 20];
    let mut next = 0;
    while next < READ_ONLY.len() {
        kinds[1 + next] = READ_ONLY[next];
        next += 1;
    }
    kinds[15] = Kind::UpdateIndex;
    kinds[16] = Kind::UpdateNonIndex;
    kinds[17] = Kind::Delete;
    kinds[18] = Kind::Insert;
    kinds[19] = Kind::Commit;
    kinds
};

/// An update between BEGIN and a read, COMMIT: its row is locked while the client answers.
const HOT_TRANSACTION: [Kind; 4] = [Kind::Begin, Kind::UpdateIndex, Kind::Point, Kind::Commit];

/// A transaction of one of sysbench's workloads, or of hot rows; `None` for the others.
pub(super) fn transaction(workload: Workload) -> Option<&'static [Kind]> {
    Some(match workload {
        Workload::PointSelect => &[Kind::Point],
        Workload::ReadOnly => &READ_ONLY,
        Workload::ReadWrite => &READ_WRITE,
        Workload::UpdateIndex | Workload::HotRows(_) => &[Kind::UpdateIndex],
        Workload::HotTransaction(_) => &HOT_TRANSACTION,
        Workload::UpdateNonIndex => &[Kind::UpdateNonIndex],
        Workload::Insert => &[Kind::Insert],
        Workload::Ycsb(_) => return None,
    })
}
