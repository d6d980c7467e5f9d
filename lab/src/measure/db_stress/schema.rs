//! The five tables. `history` has a number of its own as primary key, as InnoDB gives a table without one.

use crate::measure::definition::{TableDefinition, table};

table!(zone, "zone", key 1, None, {
    REF: Text(2), false;
    NAME: Text(40), false;
});

table!(section, "section", key 1, None, {
    REF: Text(2), false;
    REF_ZONE: Text(2), false;
    NAME: Text(40), false;
});

table!(object, "object", key 1, None, {
    REF: Text(10), false;
    REF_SECTION: Text(2), false;
    NAME: Text(40), false;
    NOTE: Text(100), false;
});

table!(stat, "stat", key 1, None, {
    REF: Text(3), false;
    NAME: Text(40), false;
    NUMB: Number, false;
});

table!(history, "history", key 1, Some(IndexDefinition {
    name: "by_object", columns: &[REF_OBJECT, HORDER], newest_first: false,
}), {
    ID: Numbered, false;
    REF_OBJECT: Text(10), false;
    HORDER: Number, false;
    REF_STAT: Text(3), false;
    BEGIN_DATE: Text(12), false;
    END_DATE: Text(12), false;
    NOTE: Text(100), false;
});

/// All tables, the largest first.
pub(crate) const TABLES: [TableDefinition; 5] =
    [history::TABLE, object::TABLE, stat::TABLE, section::TABLE, zone::TABLE];
