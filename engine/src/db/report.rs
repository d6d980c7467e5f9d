//! The result of a check.

use std::fmt;

use crate::space::SpaceStats;
use crate::tree::TreeStats;

/// The result of a check of a database.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Every tree that the catalog names, and the catalog: first the catalog, then tables, trees, rollback segments.
    pub trees: Vec<TreeReport>,
    /// Pages in use, free, and leaked.
    pub space: SpaceStats,
    /// Bytes per page.
    pub page_bytes: u32,
    /// The first [`CheckReport::FINDINGS_MAX`] findings, in the order of the check.
    pub findings: Vec<Finding>,
    /// The number of all findings.
    pub findings_total: u64,
}

impl CheckReport {
    /// The maximum number of findings kept; more are only counted.
    pub const FINDINGS_MAX: usize = 100;

    /// Whether there are no findings. Leaked pages are not findings.
    pub fn is_sound(&self) -> bool {
        self.findings_total == 0
    }

    /// Writes a finding down.
    pub(super) fn add(&mut self, finding: Finding) {
        self.findings_total += 1;
        if self.findings.len() < Self::FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

/// One defect that the check found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The damaged object, as in "table 'accounts'", "catalog", "free space".
    pub of: String,
    /// The page with the defect, if it is in a page.
    pub place: Option<PagePlace>,
    /// A description, in a line.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.of)?;
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// The location of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagePlace {
    /// The page's number.
    pub page: u64,
    /// The data file; `None` if there is no such page.
    pub file: Option<String>,
    /// The page's offset in the file, bytes.
    pub offset: Option<u64>,
}

impl fmt::Display for PagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.offset) {
            (Some(file), Some(offset)) => write!(f, "page {} ({file}, offset {offset})", self.page),
            _ => write!(f, "page {} (beyond the data files' end)", self.page),
        }
    }
}

/// The purpose of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TreeKind {
    /// The tree that names the others.
    Catalog,
    /// Rows in versions.
    Table,
    /// The entries of a secondary index, in versions.
    Index,
    /// Rows as they are.
    Tree,
    /// Undo records.
    RollbackSegment,
}

impl fmt::Display for TreeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TreeKind::Catalog => "catalog",
            TreeKind::Table => "table",
            TreeKind::Index => "index",
            TreeKind::Tree => "tree",
            TreeKind::RollbackSegment => "rollback segment",
        })
    }
}

/// The result for one tree.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TreeReport {
    /// Its purpose.
    pub kind: TreeKind,
    /// Its name in the catalog; empty for the catalog itself.
    pub name: String,
    /// The number of its root page.
    pub root: u64,
    /// Its size, as far as it could be read. For a table, rows include deleted rows that are not purged yet; for a
    /// rollback segment, they are its undo records.
    pub stats: TreeStats,
    /// The number of its findings.
    pub findings: u64,
}
