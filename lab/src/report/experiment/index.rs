//! All studies: the list of `--list`, and the index of the pages of `all`.

use comfy_table::Cell as Field;

use super::{buffer_pool_instances_2012, flifo_2009, kernel_mutex_2011, thread_concurrency_2009};
use crate::report::Style;
use crate::report::claims::{self, RATIOS_ONLY};
use crate::report::iobench::linux_io_2012;
use crate::report::page::{self, Page, escape};
use crate::report::table::{right_aligned, table};
use crate::results::Machine;
use crate::results::claims::Claim;
use crate::results::published::linux_io_2012::LinuxIo2012;

/// The studies in the order of their years: name, title and year, number of claims.
fn studies() -> Vec<(&'static str, String, usize)> {
    let of_engine = |name| {
        let study = super::study(name).expect("it is one of the names");
        (name, study.about().split(';').next().unwrap_or_default().to_owned(), study.claims().len())
    };
    let storage = LinuxIo2012::load();
    let title = format!("{}, {}", storage.title.name, storage.title.year);
    vec![
        of_engine(flifo_2009::NAME),
        of_engine(thread_concurrency_2009::NAME),
        of_engine(kernel_mutex_2011::NAME),
        of_engine(buffer_pool_instances_2012::NAME),
        (linux_io_2012::NAME, title, storage.claims.len()),
    ]
}

/// The table of `flifo experiment --list`.
pub(crate) fn list(style: Style) -> String {
    let mut table = table(style);
    table.set_header(["name", "study", "claims"]);
    for (name, title, claims) in studies() {
        table.add_row([Field::new(name), Field::new(title), Field::new(claims)]);
    }
    format!("{}\n", right_aligned(table, 2))
}

/// A study of the index.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) claims: Vec<Claim>,
    /// The name of its page's file; `None` if nothing was measured.
    pub(crate) page: Option<String>,
    /// Why nothing was measured; empty otherwise.
    pub(crate) failed: String,
}

/// The index of the pages of all studies, with every claim.
pub(crate) fn index(entries: &[Entry], machine: &Machine, command_line: &str, started_at: &str) -> String {
    let leads: String = entries.iter().map(|entry| page::lead(&entry.name, &sentence(entry))).collect();
    let facts = [
        ("machine", format!("{}, {}", page::described(machine), machine.file_system)),
        ("started", started_at.into()),
    ];
    let head = page::head("published studies", &leads, command_line, &facts);
    let sections: String = entries.iter().map(section).collect();
    let sections = format!("{sections}<ul class=\"plain\"><li>{RATIOS_ONLY}</li></ul>\n");
    Page::default().document("published studies", &head, &sections, &machine.flifo_version)
}

/// The verdicts in a sentence.
fn sentence(entry: &Entry) -> String {
    match entry.failed.as_str() {
        "" => format!("{}.", claims::count(&entry.claims)),
        failed => format!("Not measured: {failed}"),
    }
}

fn section(entry: &Entry) -> String {
    let name = escape(&entry.name);
    let heading = match &entry.page {
        Some(page) => format!("<a href=\"{}\">{name}</a>", escape(page)),
        None => name,
    };
    let table = match entry.claims.is_empty() {
        true => String::new(),
        false => claims::html(&entry.claims, "here: median lowest..highest"),
    };
    format!("<section>\n<h2>{heading}</h2>\n<div class=\"card\">{table}</div>\n</section>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::experiment::fixture;

    #[test]
    fn the_list_names_every_study_with_its_claims() {
        golden("experiment-list", &list(Style { colour: false, width: 120 }));
    }

    #[test]
    fn the_index_links_every_page_and_loads_nothing() {
        let experiment = fixture::flifo_2009(|_, _| (1.0, 1.0, 1));
        let entries = [
            Entry {
                name: experiment.experiment.clone(),
                claims: experiment.claims.clone(),
                page: Some("flifo-2009.html".into()),
                failed: String::new(),
            },
            Entry {
                name: "linux-io-2012".into(),
                claims: Vec::new(),
                page: None,
                failed: "the disk <is> full".into(),
            },
        ];
        let page = index(&entries, &experiment.machine, "flifo experiment all", "now");
        assert!(page.contains("<a href=\"flifo-2009.html\">") && page.contains("the disk &lt;is&gt; full"));
        assert!(!page.contains("plotly.js v"), "no chart, no library");
        assert!(page.len() < 200_000, "{}", page.len());
    }
}
