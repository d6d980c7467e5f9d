//! The results of `flifo check` and `flifo stat`, and their JSON. The tables of docs/check.md are generated from these types.

use flifo_engine::{AtRest, CheckReport, Error as EngineError, Finding, NextOpen, TreeReport};
use schemars::JsonSchema;
use serde::Serialize;

use super::json::pretty_json;

/// What a check came to.
pub(crate) enum Checked {
    Report(CheckReport),
    /// The files are damaged so that nothing could be checked.
    Unreadable(EngineError),
}

impl Checked {
    /// Whether no damage was found.
    pub(crate) fn is_sound(&self) -> bool {
        matches!(self, Checked::Report(report) if report.is_sound())
    }
}

/// What `flifo check` found.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CheckJson {
    /// True if there is no damage.
    pub sound: bool,
    /// Number of findings.
    pub findings_total: u64,
    /// The first hundred findings.
    pub findings: Vec<FindingJson>,
    /// Catalog, tables, indexes, trees and rollback segments. Missing if nothing could be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<TreeJson>")]
    pub trees: Option<Vec<TreeJson>>,
    /// Pages of the data files. Missing if nothing could be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SpaceJson")]
    pub space: Option<SpaceJson>,
}

/// A defect.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct FindingJson {
    /// Owner, such as `table 'accounts'`, `catalog`, `free space`; `database` if nothing could be checked.
    pub of: String,
    /// Number of the page, if the finding has one.
    pub page: Option<u64>,
    /// Data file of the page.
    pub file: Option<String>,
    /// Offset of the page in its file, bytes.
    pub offset: Option<u64>,
    /// The fault, in one line.
    pub what: String,
}

/// A tree: a table's, an index's, or one of the database's own.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct TreeJson {
    /// `catalog`, `table`, `index`, `tree` or `rollback segment`.
    pub kind: String,
    /// Name in the catalog; an index's is `table.index`. The catalog has none.
    pub name: String,
    /// Number of the root page.
    pub root: u64,
    /// Rows, deleted rows included until they are purged; for a rollback segment, undo records.
    pub rows: u64,
    /// Levels; 1 if the root is a leaf.
    pub height: u32,
    /// Pages with rows.
    pub leaf_pages: u64,
    /// Pages above the leaves.
    pub inner_pages: u64,
    /// Size of all pages of the tree, bytes.
    pub bytes: u64,
    /// Used share of the leaves, 0 to 1.
    pub fill: f64,
    /// Number of findings in this tree.
    pub tree_findings: u64,
}

/// Pages of the data files.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SpaceJson {
    /// Pages that the data files have room for.
    pub pages: u64,
    /// Pages that are marked as used.
    pub used_pages: u64,
    /// Pages that are not marked as used.
    pub free_pages: u64,
    /// Pages that something refers to.
    pub reached_pages: u64,
    /// Pages that are marked as used, and that nothing readable refers to.
    pub leaked_pages: u64,
    /// Leaked pages that `--reclaim` freed.
    pub freed_pages: u64,
}

/// What `flifo stat` shows.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct StatJson {
    /// Version of the files' format.
    pub format_version: u32,
    /// Id of the database, the same in all its files.
    pub id: String,
    /// Size of a page, bytes.
    pub page_bytes: u32,
    /// The data files.
    pub data_files: Vec<FileJson>,
    /// Pages that the data files have room for.
    pub pages: u64,
    /// True if the database was closed.
    pub clean: bool,
    /// What the next open does: `as it is`, `recovers`, `makes anew` or `refuses`.
    pub next_open: &'static str,
    /// The reason, if `next_open` is `refuses`.
    pub refused_because: Option<String>,
    /// LSN at which recovery begins to read the redo log.
    pub checkpoint_lsn: u64,
    /// LSN up to which the redo log is known to be durable.
    pub durable_lsn: u64,
    /// Number of openings that wrote.
    pub epoch: u32,
    /// Files of the redo log.
    pub redo_files: Vec<String>,
    /// Capacity of the redo log, bytes; `null` if its files cannot be used.
    pub redo_capacity_bytes: Option<u64>,
    /// Why the files of the redo log cannot be used; `null` if they can.
    pub redo_problem: Option<String>,
    /// The object of `flifo check`; `null` if the trees were not read.
    pub contents: Option<CheckJson>,
}

/// A data file.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct FileJson {
    /// Path of the file.
    pub file: String,
    /// Length of the file, bytes.
    pub bytes: u64,
}

/// The JSON of `flifo check`.
pub(crate) fn check(checked: &Checked) -> String {
    pretty_json(&CheckJson::from(checked))
}

/// The JSON of `flifo stat`.
pub(crate) fn stat(at_rest: &AtRest, checked: Option<&Checked>) -> String {
    let redo = at_rest.redo_capacity_bytes.as_ref();
    let (next_open, refusal) = match &at_rest.next_open {
        NextOpen::Recovers => ("recovers", None),
        NextOpen::MakesAnew => ("makes anew", None),
        NextOpen::Refuses(why) => ("refuses", Some(why)),
        _ => ("as it is", None),
    };
    pretty_json(&StatJson {
        format_version: at_rest.format_version,
        id: at_rest.id.to_string(),
        page_bytes: at_rest.page_bytes,
        data_files: at_rest
            .data_files
            .iter()
            .map(|(file, bytes)| FileJson { file: file.clone(), bytes: *bytes })
            .collect(),
        pages: at_rest.pages,
        clean: at_rest.is_clean,
        next_open,
        refused_because: refusal.map(ToString::to_string),
        checkpoint_lsn: at_rest.checkpoint_lsn,
        durable_lsn: at_rest.durable_lsn,
        epoch: at_rest.epoch,
        redo_files: at_rest.redo_files.clone(),
        redo_capacity_bytes: redo.ok().copied(),
        redo_problem: redo.err().cloned(),
        contents: checked.map(CheckJson::from),
    })
}

impl From<&Checked> for CheckJson {
    fn from(checked: &Checked) -> Self {
        match checked {
            Checked::Report(report) => CheckJson::from(report),
            Checked::Unreadable(error) => CheckJson {
                sound: false,
                findings_total: 1,
                findings: vec![FindingJson {
                    of: "database".into(),
                    what: error.to_string(),
                    ..FindingJson::default()
                }],
                trees: None,
                space: None,
            },
        }
    }
}

impl From<&CheckReport> for CheckJson {
    fn from(report: &CheckReport) -> Self {
        let space = &report.space;
        CheckJson {
            sound: report.is_sound(),
            findings_total: report.findings_total,
            findings: report.findings.iter().map(FindingJson::from).collect(),
            trees: Some(report.trees.iter().map(|tree| TreeJson::new(tree, report.page_bytes)).collect()),
            space: Some(SpaceJson {
                pages: space.pages,
                used_pages: space.used_pages,
                free_pages: space.free_pages(),
                reached_pages: space.reached_pages,
                leaked_pages: space.leaked_pages,
                freed_pages: space.freed_pages,
            }),
        }
    }
}

impl From<&Finding> for FindingJson {
    fn from(finding: &Finding) -> Self {
        let place = finding.place.as_ref();
        FindingJson {
            of: finding.of.clone(),
            page: place.map(|place| place.page),
            file: place.and_then(|place| place.file.clone()),
            offset: place.and_then(|place| place.offset),
            what: finding.what.clone(),
        }
    }
}

impl TreeJson {
    fn new(tree: &TreeReport, page_bytes: u32) -> Self {
        TreeJson {
            kind: tree.kind.to_string(),
            name: tree.name.clone(),
            root: tree.root,
            rows: tree.stats.rows,
            height: tree.stats.height,
            leaf_pages: tree.stats.leaf_pages,
            inner_pages: tree.stats.inner_pages,
            bytes: tree.stats.pages() * u64::from(page_bytes),
            fill: tree.stats.fill(page_bytes as usize),
            tree_findings: tree.findings,
        }
    }
}
