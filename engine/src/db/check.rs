//! The check of a whole database: every reachable page, every version, and the bitmaps.
//!
//! The order is: the catalog, which names the trees; the rollback segments, which list the versions that must exist;
//! tables; trees; the bitmaps, which must match the reached pages. The check records damage, and continues with the
//! pages that it can still reach.

use std::collections::HashSet;

use super::agreement;
use super::catalog::{Catalog, Entry, Kind};
use super::ddl::Note;
use super::definition::Definition;
use super::report::{CheckReport, Finding, PagePlace, TreeKind, TreeReport};
use crate::buffer::{BufferPool, RecoveryProgress};
use crate::disk::Tablespace;
use crate::error::{Error, Result};
use crate::page::node::Node;
use crate::page::{PageNo, Torn};
use crate::space::Reached;
use crate::tree::{Tree, Visit};
use crate::txn::{History, TxnId};
use crate::wait::Waiter;

/// The progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckProgress {
    /// The database was not closed; it is recovered first.
    Recovering(RecoveryProgress),
    /// Pages are read.
    Checking {
        /// Pages read.
        pages: u64,
        /// Pages that are marked as used and so will be read, as far as known.
        of: u64,
    },
}

/// Pages between two progress reports.
const PROGRESS_PAGES: u64 = 256;

/// What a check goes by.
pub(super) struct Check<'a> {
    catalog: &'a Catalog,
    space: &'a Tablespace,
    waiter: &'a Waiter,
    reached: Reached,
    reporter: CheckReporter<'a>,
}

/// The results and the progress that the check reports.
struct CheckReporter<'a> {
    space: &'a Tablespace,
    report: CheckReport,
    progress: &'a mut dyn FnMut(CheckProgress),
    pages: u64,
    of: u64,
    /// The name of the tree under check.
    name: String,
    /// Nothing is wrong with it, whatever is found: the next open empties it.
    is_void: bool,
}

impl<'a> Check<'a> {
    /// Checks the database of `pool` and `catalog`, which no thread changes during the check. With `reclaim`, leaked
    /// pages are freed if there are no findings: only then are the unreached pages known to be unused.
    pub(super) fn run(
        pool: &'a BufferPool,
        catalog: &'a Catalog,
        reclaim: bool,
        waiter: &'a Waiter,
        progress: &'a mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let space = pool.space();
        // An error is met again, and written down, when the bitmaps are checked.
        let of = catalog.alloc().used_pages(waiter).unwrap_or(space.pages()).min(space.pages());
        let report = CheckReport { page_bytes: space.page_size() as u32, ..CheckReport::default() };
        let reporter =
            CheckReporter { space, report, progress, pages: 0, of, name: String::new(), is_void: false };
        let reached = Reached::of(space.pages());
        Check { catalog, space, waiter, reached, reporter }.all(reclaim)
    }

    fn all(mut self, reclaim: bool) -> Result<CheckReport> {
        let entries = self.entries()?;
        let next = entries.iter().find_map(|entry| match entry {
            Entry::Number { name, value } if name == super::database::NEXT_TXN => Some(*value),
            _ => None,
        });
        let mut trees: Vec<(Kind, &str, Tree)> = Vec::new();
        for entry in &entries {
            if let Entry::Tree { kind, name, root } = entry {
                trees.push((*kind, name, self.catalog.at(*root)));
            }
        }
        let tables = self.tables(&entries);
        // A segment's number is its place in the order of their names.
        let of_kind = |of: Kind| trees.iter().filter(move |(kind, ..)| *kind == of);
        let versioned = tables.iter().flat_map(|(_, definition)| definition.roots()).collect();
        let segments = of_kind(Kind::Undo).map(|(.., tree)| tree.clone()).collect();
        let mut history = History::new(segments, TxnId(next.unwrap_or(1)), versioned);
        for (index, (_, name, tree)) in of_kind(Kind::Undo).enumerate() {
            self.tree(TreeKind::RollbackSegment, name, tree, &mut |reporter, _page, leaf| {
                history.read_leaf(index, leaf, |error| reporter.find(None, &error))
            })?;
        }
        let loading =
            |root| entries.iter().any(|entry| matches!(entry, Entry::Note(Note::Loading(of)) if *of == root));
        for (name, definition) in &tables {
            // During a reclaim, a remaining loading note belongs to a tree that could not be emptied, so it is checked.
            self.reporter.is_void = !reclaim && loading(definition.root);
            self.table(name, definition, &history)?;
        }
        self.reporter.is_void = false;
        for (_, name, tree) in of_kind(Kind::Tree) {
            self.tree(TreeKind::Tree, name, tree, &mut |_, _, _| Ok(()))?;
        }
        self.bitmaps(reclaim)?;
        let CheckReporter { mut report, progress, pages, .. } = self.reporter;
        progress(CheckProgress::Checking { pages, of: pages });
        // As one looks for them: the catalog, tables, trees, segments.
        report.trees.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Ok(report)
    }

    /// Checks a table's trees, and whether they agree if they are readable.
    fn table(&mut self, name: &str, definition: &Definition, history: &History) -> Result<()> {
        let before = self.reporter.report.findings_total;
        self.versions(TreeKind::Table, name, &self.catalog.at(definition.root), history)?;
        let Some(typed) = &definition.typed else { return Ok(()) };
        for (index, &root) in typed.schema.indexes().iter().zip(&typed.indexes) {
            let name = format!("{name}.{}", index.definition().name);
            self.versions(TreeKind::Index, &name, &self.catalog.at(root), history)?;
        }
        if self.reporter.report.findings_total > before || !history.is_settled() || self.reporter.is_void {
            return Ok(());
        }
        self.reporter.name = format!("{} '{name}'", TreeKind::Table);
        agreement::check(self.catalog, definition.root, typed, self.waiter, &mut |what| {
            self.reporter.find(None, &Error::CorruptUndo { what });
        })
    }

    /// Checks the catalog, and returns its readable entries, in the order of the keys.
    fn entries(&mut self) -> Result<Vec<Entry>> {
        let (catalog, waiter, mut entries) = (self.catalog, self.waiter, Vec::new());
        if self.space.catalog_root() == 0 {
            self.reporter.name = TreeKind::Catalog.to_string();
            let what = "the state blocks do not say where the catalog begins";
            self.reporter.find(None, &Error::CorruptPage { page: 0, what: what.to_owned() });
            return Ok(entries);
        }
        self.tree(TreeKind::Catalog, "", catalog.whole(), &mut |reporter, page, leaf| {
            let mut value = Vec::new();
            for slot in 0..leaf.slots()? {
                let (key, stored) = (leaf.key(slot)?, leaf.stored(slot)?);
                value.clear();
                value.extend_from_slice(stored.bytes);
                if stored.large
                    && let Err(error) = catalog.whole().get(waiter, &key, &mut value)
                {
                    reporter.find(Some(page), &error);
                    continue;
                }
                match Entry::decode(&key, &value) {
                    Ok(entry) => entries.push(entry),
                    Err(what) => reporter.find(Some(page), &Error::CorruptPage { page: page.0, what }),
                }
            }
            Ok(())
        })?;
        entries.sort_by(|a, b| a.order().cmp(&b.order()));
        Ok(entries)
    }

    /// The tables: each once, though a rename that was cut off leaves two names for one.
    fn tables<'e>(&self, entries: &'e [Entry]) -> Vec<(&'e str, &'e Definition)> {
        let renamed = entries.iter().any(|entry| matches!(entry, Entry::Note(Note::Renamed)));
        let (mut tables, mut roots) = (Vec::new(), HashSet::new());
        for entry in entries {
            if let Entry::Table { name, definition } = entry
                && (roots.insert(definition.root) || !renamed)
            {
                tables.push((&name[..], &**definition));
            }
        }
        tables
    }

    /// Checks a tree whose rows are versions.
    fn versions(&mut self, kind: TreeKind, name: &str, tree: &Tree, history: &History) -> Result<()> {
        let waiter = self.waiter;
        self.tree(kind, name, tree, &mut |reporter, page, leaf| {
            let mut newest = Vec::new();
            for slot in 0..leaf.slots()? {
                newest.clear();
                leaf.append_value(slot, &mut newest)?;
                let key = leaf.key(slot)?;
                if let Err(error) = history.check_version(tree.root(), &key, &newest, waiter) {
                    let row = format!("row {}: {error}", key.escape_ascii());
                    reporter.find(Some(page), &Error::CorruptPage { page: page.0, what: row });
                }
            }
            Ok(())
        })
    }

    /// Walks over a tree, and gives each of its leaves to `leaf`.
    fn tree(&mut self, kind: TreeKind, name: &str, tree: &Tree, leaf: OfLeaf<'_, 'a>) -> Result<()> {
        self.reporter.name = if name.is_empty() { kind.to_string() } else { format!("{kind} '{name}'") };
        let before = self.reporter.report.findings_total;
        let mut walking = Walking { reporter: &mut self.reporter, leaf };
        let stats = tree.walk(self.waiter, &mut self.reached, &mut walking)?;
        let findings = self.reporter.report.findings_total - before;
        let (name, root) = (name.to_owned(), tree.root().0);
        self.reporter.report.trees.push(TreeReport { kind, name, root, stats, findings });
        Ok(())
    }

    fn bitmaps(&mut self, reclaim: bool) -> Result<()> {
        let Check { catalog, waiter, reached, reporter, .. } = self;
        reporter.name = "free space".to_owned();
        let mut space =
            catalog.alloc().check(waiter, reached, &mut |page, error| reporter.damage(page, error))?;
        if reclaim && reporter.report.is_sound() {
            space.freed_pages = catalog.alloc().free_leaked(waiter, reached)?;
            space.used_pages -= space.freed_pages;
            space.leaked_pages -= space.freed_pages;
        }
        reporter.report.space = space;
        Ok(())
    }
}

type OfLeaf<'l, 'a> =
    &'l mut dyn FnMut(&mut CheckReporter<'a>, PageNo, Node<&[u8]>) -> std::result::Result<(), Torn>;

/// The walk over one tree.
struct Walking<'w, 'a> {
    reporter: &'w mut CheckReporter<'a>,
    leaf: OfLeaf<'w, 'a>,
}

impl Visit for Walking<'_, '_> {
    fn page(&mut self) {
        let reporter = &mut *self.reporter;
        reporter.pages += 1;
        if reporter.pages.is_multiple_of(PROGRESS_PAGES) {
            (reporter.progress)(CheckProgress::Checking {
                pages: reporter.pages,
                of: reporter.of.max(reporter.pages),
            });
        }
    }

    fn leaf(&mut self, page: PageNo, leaf: Node<&[u8]>) -> Result<()> {
        (self.leaf)(self.reporter, page, leaf).or_else(|Torn| {
            let what = "its entries lie outside of it".to_owned();
            self.reporter.damage(page, Error::CorruptPage { page: page.0, what })
        })
    }

    fn damage(&mut self, page: PageNo, error: Error) -> Result<()> {
        self.reporter.damage(page, error)
    }
}

impl CheckReporter<'_> {
    /// An error that prevents all further reads ends the check.
    fn damage(&mut self, page: PageNo, error: Error) -> Result<()> {
        if error.ends_all() {
            return Err(error);
        }
        self.find(Some(page), &error);
        Ok(())
    }

    fn find(&mut self, page: Option<PageNo>, error: &Error) {
        if self.is_void {
            return;
        }
        let what = match error {
            Error::CorruptPage { what, .. } | Error::CorruptUndo { what } => what.clone(),
            Error::CorruptRedo { what, .. } => what.clone(),
            error => error.to_string(),
        };
        let place = page.map(|page| {
            let place = self.space.place_of(page.0);
            let (file, offset) = place.map_or((None, None), |(file, offset)| (Some(file), Some(offset)));
            PagePlace { page: page.0, file, offset }
        });
        self.report.add(Finding { of: self.name.clone(), place, what });
    }
}
