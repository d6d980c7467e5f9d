//! The page of a run: the storage, a conclusion, advice, the curves, and every figure in a table.

use super::advise::{self, Advice, advise};
use super::charts::charts;
use super::conclusion::conclusions;
use super::linux_io_2012;
use super::view::{Panel, iops, is_raw, panels, requests_per_io, size, spread};
use crate::report::page::{self, Page, escape};
use crate::report::{INTERRUPTED, ReportError};
use crate::results::io::{IoCell, IoResults, IoRound, Storage};
use crate::support::format::{bytes, count, maybe, percent, with_spread};

/// The page as HTML. For an experiment, its claims come first.
pub fn html(results: &IoResults) -> Result<String, ReportError> {
    let panels = panels(results);
    if panels.is_empty() {
        return Err(ReportError::Empty);
    }
    let mut page = Page::default();
    let claims = linux_io_2012::card(results).unwrap_or_default();
    let advice = advice_card(results);
    let sections: String = panels.iter().map(|panel| section(panel, &mut page)).collect();
    let title = format!("storage under {}", results.storage.path);
    let sections = format!("{claims}{advice}{sections}");
    Ok(page.document(&title, &head(results), &sections, &results.machine.flifo_version))
}

fn head(results: &IoResults) -> String {
    let (machine, settings) = (&results.machine, &results.settings);
    let mut facts = storage_facts(&results.storage);
    facts.extend([
        ("machine", page::described(machine)),
        (
            "measured",
            format!(
                "{} of data, {} rounds of {} s after {} s of load, {}% reads under random-mixed, seed {}",
                bytes(settings.size_bytes),
                settings.rounds,
                settings.round_s,
                settings.warmup_s,
                settings.read_share_pct,
                settings.seed
            ),
        ),
        ("started", format!("{}, took {:.0} s", results.started_at, results.elapsed_s)),
    ]);
    let conclusions = conclusions(results);
    let leads: String =
        conclusions.iter().map(|conclusion| page::lead(&conclusion.about, &conclusion.sentence)).collect();
    let warnings: String = warnings(results).iter().map(|warning| page::warning(warning)).collect();
    page::head("storage benchmark", &format!("{leads}{warnings}"), &results.command_line, &facts)
}

/// What a reader must know before the figures.
fn warnings(results: &IoResults) -> Vec<String> {
    let mut warnings = Vec::new();
    for cell in &results.cells {
        let key = &cell.key;
        for failure in &cell.failures {
            warnings.push(format!(
                "Not measured: {} {} {}, round {}: {}",
                key.workload,
                super::view::name(key),
                super::view::with_carriers(key),
                failure.round + 1,
                failure.reason
            ));
        }
    }
    if results.interrupted {
        warnings.push(INTERRUPTED.into());
    }
    if results.settings.quick {
        warnings.push("Measured in short (--quick): wider errors.".into());
    }
    warnings
}

fn storage_facts(storage: &Storage) -> Vec<(&'static str, String)> {
    let filesystem = if storage.filesystem.is_empty() {
        "a raw device".to_owned()
    } else {
        format!("{} ({})", storage.filesystem, storage.mount_options)
    };
    let mut disk = vec![storage.device.clone(), storage.device_model.clone()];
    disk.extend(storage.device_bytes.map(bytes));
    disk.extend(storage.rotational.map(|rotational| {
        if rotational { "rotational, says the kernel" } else { "not rotational" }.to_owned()
    }));
    if !storage.write_cache.is_empty() {
        disk.push(format!("cache {}", storage.write_cache));
    }
    disk.retain(|part| !part.is_empty());
    let mut queue = Vec::new();
    if !storage.scheduler.is_empty() {
        queue.push(format!("scheduler {}", storage.scheduler));
    }
    queue.extend(storage.requests_max.map(|requests| format!("{requests} requests")));
    queue.extend(storage.logical_block_bytes.map(|size| format!("logical block {size}")));
    queue.extend(storage.physical_block_bytes.map(|size| format!("physical block {size}")));
    let short = |bytes: u64| size(u32::try_from(bytes).unwrap_or(u32::MAX));
    let atomic = match (storage.atomic_write_min_bytes, storage.atomic_write_max_bytes) {
        (Some(min), Some(max)) => format!("{} to {}", short(min), short(max)),
        _ => "none reported by the kernel".to_owned(),
    };
    let or_unknown =
        |parts: Vec<String>| if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") };
    vec![
        ("storage", format!("{} on {filesystem}", storage.path)),
        ("disk", or_unknown(disk)),
        ("queue", or_unknown(queue)),
        ("atomic writes", atomic),
    ]
}

fn advice_card(results: &IoResults) -> String {
    let caveat = advise::caveat(results).map(page::warning).unwrap_or_default();
    let set = |name: &str, value: Option<&str>| {
        let (class, value) = value.map_or(("between", "-"), |value| ("holds", value));
        format!(
            "<td class=\"value\"><code>{}</code><br><span class=\"{class}\">{}</span></td>",
            escape(name),
            escape(value)
        )
    };
    let row = |advice: Advice| {
        format!(
            "<tr>{}{}<td>{}</td></tr>\n",
            set(advice.setting, advice.value.as_deref()),
            set(advice.innodb_setting, advice.innodb_value.as_deref()),
            escape(&advice.because)
        )
    };
    let rows: String = advise(results).into_iter().map(row).collect();
    format!(
        "<div class=\"card\"><h3>Advice, and the figures behind it</h3>\n{caveat}\
         <div class=\"scroll\" tabindex=\"0\"><table class=\"words told\"><thead><tr><th>flifo</th>\
         <th>InnoDB</th><th>because</th></tr></thead>\n<tbody>\n{rows}</tbody></table></div></div>\n"
    )
}

fn section(panel: &Panel<'_>, page: &mut Page) -> String {
    format!(
        "<section>\n<h2>{}</h2>\n{}{}</section>\n",
        escape(&panel.heading()),
        page.figures(charts(panel), ""),
        cell_table(panel)
    )
}

/// A longer table is folded until the reader opens it.
const ROWS_OPEN_MAX: usize = 40;

/// A column of the table: its heading, and its figure of a round.
type Column = (&'static str, fn(&IoRound) -> Option<f64>);

const READS: [Column; 4] = [
    ("read p50 µs", |r| r.read_latency.and_then(|l| l.p50_us)),
    ("p99", |r| r.read_latency.and_then(|l| l.p99_us)),
    ("p99.9", |r| r.read_latency.and_then(|l| l.p99_9_us)),
    ("longest", |r| r.read_latency.map(|l| l.max_us)),
];

const WRITES: [Column; 4] = [
    ("write p50 µs", |r| r.write_latency.and_then(|l| l.p50_us)),
    ("p99", |r| r.write_latency.and_then(|l| l.p99_us)),
    ("p99.9", |r| r.write_latency.and_then(|l| l.p99_9_us)),
    ("longest", |r| r.write_latency.map(|l| l.max_us)),
];

const COSTS: [Column; 2] = [
    ("CPU µs/I/O", |r| Some(r.cpu_us_per_io)),
    ("switches/I/O", |r| {
        let ios = r.reads + r.writes;
        (ios > 0).then(|| r.context_switches as f64 / ios as f64)
    }),
];

const DISK: [Column; 4] = [
    ("disk requests/I/O", requests_per_io),
    ("disk read ms", |r| r.block_layer.filter(|layer| layer.reads > 0).map(|layer| layer.read_ms)),
    ("write ms", |r| r.block_layer.filter(|layer| layer.writes > 0).map(|layer| layer.write_ms)),
    ("in flight", |r| r.block_layer.map(|layer| layer.in_flight)),
];

/// Every cell of the panel, in full.
fn cell_table(panel: &Panel<'_>) -> String {
    let median = |cell: &IoCell, figure: fn(&IoRound) -> Option<f64>| spread(cell, figure).map(|s| s.median);
    let is_known = |column: &Column| {
        panel.curves.iter().flat_map(|curve| &curve.cells).any(|cell| median(cell, column.1).is_some())
    };
    let columns: Vec<Column> =
        READS.into_iter().chain(WRITES).chain(COSTS).chain(DISK).filter(is_known).collect();
    let head: String = ["files", "mode", "block", panel.counted(), "IOPS", "MB/s"]
        .into_iter()
        .chain(columns.iter().map(|(name, _)| *name))
        .chain(["busy"])
        .map(|name| format!("<th>{name}</th>"))
        .collect();
    let mut rows = String::new();
    let cells: usize = panel.curves.iter().map(|curve| curve.cells.len()).sum();
    let open = if cells <= ROWS_OPEN_MAX { " open" } else { "" };
    for curve in &panel.curves {
        let mut class = " class=\"group\"";
        for cell in &curve.cells {
            let key = &cell.key;
            let mut fields = vec![
                if is_raw(key) { "raw".into() } else { key.files.to_string() },
                key.mode.clone(),
                size(key.block_bytes),
                key.concurrency.to_string(),
                with_spread(iops(cell)),
                median(cell, |r| Some(r.mb_per_s)).map_or("-".into(), count),
            ];
            fields.extend(columns.iter().map(|(_, figure)| maybe(median(cell, *figure))));
            fields.push(percent(median(cell, |r| r.block_layer.map(|layer| layer.busy_pct))));
            let fields: String = fields.iter().map(|field| format!("<td>{}</td>", escape(field))).collect();
            rows += &format!("<tr{class}>{fields}</tr>\n");
            class = "";
        }
    }
    format!(
        "<div class=\"card\"><details{open}><summary>All {cells} cells: medians of the rounds</summary>\n\
         <div class=\"scroll\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div></details></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::iobench::fixture;

    #[test]
    fn the_page_shows_every_series_the_storage_and_the_advice() {
        let results = fixture::full();
        let page = html(&results).unwrap().replace(&crate::report::page::library(), "");
        for panel in panels(&results) {
            assert!(page.contains(&format!("<h2>{}</h2>", panel.heading())));
            for curve in &panel.curves {
                let named = format!("\"name\":\"{}\"", curve.label());
                assert!(page.contains(&named), "{}: {named}", panel.workload);
            }
        }
        for expected in [
            "/srv/made-up on ext4 (rw,noatime)",
            "nvme9n9, Made-up 2TB, 1.8 TiB",
            "scheduler none, 1023 requests",
            "<dt>atomic writes</dt><dd>4K to 16K</dd>",
            "innodb_io_capacity_max",
            "Not measured: ",
            "Input/output error",
        ] {
            assert!(page.contains(expected), "{expected}");
        }
        let rows = page.matches("<td>processes</td>").count();
        assert_eq!(rows, 0, "the number of processes, not the word");
        assert!(!page.contains("http://") && !page.contains("https://"), "an address");
    }

    #[test]
    fn what_a_user_typed_stays_text() {
        let mut results = fixture::study("ext4");
        results.storage.path = "/srv/</script><script>alert(1)</script>".into();
        results.storage.mount_options = "<b>".into();
        results.cells[0].key.mode = "</script><i>".into();
        let page = html(&results).unwrap();
        assert!(!page.contains("<script>alert") && !page.contains("</script><i>") && !page.contains("(<b>)"));
    }

    #[test]
    fn nothing_measured_is_an_error_that_says_so() {
        assert!(matches!(html(&fixture::empty("ext4")), Err(ReportError::Empty)));
    }

    #[test]
    fn storage_that_says_nothing() {
        let facts = storage_facts(&Storage { path: "/dev/x".into(), ..Storage::default() });
        let words: Vec<&str> = facts.iter().map(|(_, fact)| fact.as_str()).collect();
        assert_eq!(words, ["/dev/x on a raw device", "unknown", "unknown", "none reported by the kernel"]);
    }
}
