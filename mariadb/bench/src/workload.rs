//! What sysbench does, and what the server counts of it.

use clap::ValueEnum;

/// A workload of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Workload {
    /// Updates without an index, over a table of 100 rows
    #[value(name = "hot-rows-100")]
    HotRows100,
    /// The same over a table of one row
    #[value(name = "hot-rows-1")]
    HotRows1,
    /// Updates of an indexed column
    UpdateIndex,
    /// Updates of a column without an index
    UpdateNonIndex,
    /// Transactions of 18 statements, 4 of which write
    ReadWrite,
    /// Reads of one row
    PointSelect,
    /// Transactions of 14 reads, 4 of which take 1000 rows
    ReadOnly,
}

/// The database of the big table.
pub const BIG: &str = "sbtest";

impl Workload {
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// As the issue calls it.
    pub fn title(self, rows: u32) -> String {
        match self {
            Workload::HotRows100 => "update, 100 hot rows".into(),
            Workload::HotRows1 => "update, 1 hot row".into(),
            Workload::UpdateIndex => format!("update index, {rows} rows"),
            Workload::UpdateNonIndex => format!("update non-index, {rows} rows"),
            Workload::ReadWrite => "read-write mix".into(),
            Workload::PointSelect => "point select".into(),
            Workload::ReadOnly => "read only, range 1000".into(),
        }
    }

    /// What a figure per second counts.
    pub fn counted(self) -> &'static str {
        match self {
            Workload::ReadWrite | Workload::ReadOnly => "transactions",
            Workload::PointSelect => "selects",
            _ => "updates",
        }
    }

    /// The server's counter of just that.
    pub(crate) fn counter(self) -> &'static str {
        match self {
            Workload::ReadWrite | Workload::ReadOnly => "COM_COMMIT",
            Workload::PointSelect => "COM_SELECT",
            _ => "COM_UPDATE",
        }
    }

    pub(crate) fn script(self) -> &'static str {
        match self {
            Workload::HotRows100 | Workload::HotRows1 | Workload::UpdateNonIndex => "oltp_update_non_index",
            Workload::UpdateIndex => "oltp_update_index",
            Workload::ReadWrite => "oltp_read_write",
            Workload::PointSelect => "oltp_point_select",
            Workload::ReadOnly => "oltp_read_only",
        }
    }

    /// Where its table is.
    pub(crate) fn database(self) -> &'static str {
        match self {
            Workload::HotRows100 => "hot100",
            Workload::HotRows1 => "hot1",
            _ => BIG,
        }
    }

    pub(crate) fn table_size(self, rows: u32) -> u32 {
        match self {
            Workload::HotRows100 => 100,
            Workload::HotRows1 => 1,
            _ => rows,
        }
    }

    /// Further arguments for sysbench.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Workload::ReadOnly => &["--range-size=1000"],
            _ => &[],
        }
    }
}

/// The databases with a table each, and its rows.
pub(crate) fn tables(rows: u32) -> [(&'static str, u32); 3] {
    [Workload::PointSelect, Workload::HotRows100, Workload::HotRows1]
        .map(|workload| (workload.database(), workload.table_size(rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_they_are_typed() {
        let names: Vec<String> = Workload::value_variants().iter().map(|workload| workload.name()).collect();
        let target = [
            "hot-rows-100",
            "hot-rows-1",
            "update-index",
            "update-non-index",
            "read-write",
            "point-select",
            "read-only",
        ];
        assert_eq!(names, target);
    }

    #[test]
    fn every_workload_has_its_table() {
        for workload in Workload::value_variants() {
            let table = (workload.database(), workload.table_size(5000));
            assert!(tables(5000).contains(&table), "{workload:?}");
        }
    }
}
