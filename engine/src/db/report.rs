//! What a check of a database found.

use std::fmt;

use crate::space::SpaceStats;
use crate::tree::TreeStats;

/// What a check of a database found.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Every tree that the catalog names, and the catalog: first the catalog, then tables, trees, rollback segments.
    pub trees: Vec<TreeReport>,
    /// Pages in use, free, and leaked.
    pub space: SpaceStats,
    /// Bytes per page.
    pub page_bytes: u32,
    /// What is wrong, in the order in which it was met: the first [`CheckReport::FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// How many there were.
    pub findings_total: u64,
}

impl CheckReport {
    /// Findings that are kept; more are only counted.
    pub const FINDINGS_MAX: usize = 100;

    /// Whether nothing is wrong. Leaked pages are not.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Whose: as in "table 'accounts'", "catalog", "free space".
    pub of: String,
    /// The page in which it was met, if it was in one.
    pub place: Option<PagePlace>,
    /// What is wrong, in a line.
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

/// Where a page lies.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PagePlace {
    /// Its number.
    pub page: u64,
    /// The data file; none if there is no such page.
    pub file: Option<String>,
    /// Where in the file it begins, bytes.
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

/// What a tree is for.
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

/// One tree.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TreeReport {
    /// What it is for.
    pub kind: TreeKind,
    /// Its name in the catalog; the catalog itself has none.
    pub name: String,
    /// The page of its root.
    pub root: u64,
    /// What it consists of, as far as it could be read. A table's rows are counted with those that are deleted and not purged
    /// yet; a rollback segment's are its undo records.
    pub stats: TreeStats,
    /// How many findings are its.
    pub findings: u64,
}
