//! Handles of trees and tables.

use std::sync::Arc;

use super::typed::OpenTyped;
use crate::tree;

/// A tree of a database: ordered rows of a key and a value. Clones are handles of the same tree.
///
/// A [`Statement`](crate::Statement), which comes from a [`Session`](crate::Session) of the same database, reads and
/// changes it.
#[derive(Clone)]
pub struct Tree {
    pub(super) open: Arc<OpenTree>,
}

/// What all handles of a tree share.
pub(super) struct OpenTree {
    pub(super) name: String,
    /// Number of the open database it belongs to.
    pub(super) database: u64,
    pub(super) tree: tree::Tree,
    /// The columns and indexes of a typed table.
    pub(super) typed: Option<Arc<OpenTyped>>,
}

/// A table of a database: ordered, versioned rows of a key and a value. Clones are handles of the same table.
///
/// A [`Transaction`](crate::Transaction) reads and changes it.
#[derive(Clone)]
pub struct Table {
    pub(super) open: Arc<OpenTree>,
}

impl Table {
    /// The name in the catalog.
    pub fn name(&self) -> &str {
        &self.open.name
    }
}

impl Tree {
    /// The name in the catalog.
    pub fn name(&self) -> &str {
        &self.open.name
    }
}
