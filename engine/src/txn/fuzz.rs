//! Arbitrary versions of rows and undo records.

use super::TxnId;
use super::undo::{Record, RecordHead, What};
use super::version::{Header, UndoPtr, live_value};
use crate::page::PageNo;

/// Decodes the bytes as a version and as a record; each valid one encodes to the same bytes.
pub fn undo(data: &[u8]) {
    if let Ok((header, value)) = Header::decode(data) {
        let mut again = Vec::new();
        header.encode(&mut again);
        again.extend_from_slice(value);
        assert_eq!(again, data);
        assert_eq!(live_value(data).is_none(), header.deleted);
    }
    let head = RecordHead::decode(data);
    let Ok(record) = Record::decode(data) else { return };
    let (head, _) = head.expect("a record has a head");
    assert_eq!((head.txn, head.tree, head.deletes), (record.txn, record.tree, record.deletes));
    assert_eq!(Record::decode(&record.encode()).ok(), Some(record));
}

/// A version, and a record of each kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut version = Vec::new();
    Header { txn: TxnId(7), undo: UndoPtr(9), deleted: false }.encode(&mut version);
    version.extend_from_slice(b"a value");
    let record = |what| Record { txn: TxnId(7), tree: PageNo(8), key: b"key".to_vec(), deletes: false, what };
    let mut seeds: Vec<_> =
        [What::Added, What::Replaced(version.clone())].map(|what| record(what).encode()).into();
    seeds.extend([Record::commit(TxnId(7)).encode(), Record::prepared(TxnId(7), b"xid").encode(), version]);
    seeds
}
