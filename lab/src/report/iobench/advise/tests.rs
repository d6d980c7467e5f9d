//! Every rule on made-up runs: its advice, no difference, and missing measurements.

use super::*;
use crate::golden::{Cases, golden};
use crate::report::Style;
use crate::report::iobench::advise::{advise, caveat, text};
use crate::report::iobench::fixture::{cell_of, empty, full, study};
use crate::results::io::IoKey;

fn key(workload: &str, mode: &str, block_bytes: u32, files: u32, concurrency: u32) -> IoKey {
    IoKey {
        workload: workload.into(),
        access: "file".into(),
        mode: mode.into(),
        block_bytes,
        files,
        carrier: "threads".into(),
        concurrency,
    }
}

/// A run of these cells with the rounds' I/Os per second.
fn run(cells: &[(IoKey, &[f64])]) -> IoResults {
    let mut results = empty("ext4");
    results.storage.atomic_write_max_bytes = None;
    results.cells = cells.iter().map(|(key, iops)| cell_of(key.clone(), iops)).collect();
    results
}

fn advice(results: &IoResults, setting: &str) -> Advice {
    let all = advise(results);
    all.into_iter().find(|advice| advice.setting == setting).unwrap()
}

fn value(results: &IoResults, setting: &str) -> Option<String> {
    advice(results, setting).value
}

#[test]
fn nothing_measured_advises_nothing_and_says_what_to_add() {
    let mut results = empty("ext4");
    results.storage.atomic_write_max_bytes = None;
    let mut cases = Cases::default();
    for advice in advise(&results) {
        cases.add(advice.setting, &advice.because);
        // Whether pages can be torn is the disk's word, not a measurement.
        if advice.setting != "doublewrite" {
            assert_eq!((&advice.value, &advice.innodb_value), (&None, &None), "{advice:?}");
        }
    }
    cases.check("advice-nothing-measured");
}

#[test]
fn the_fewest_files_that_do_what_the_best_does() {
    let files = |iops: [f64; 4]| {
        let cells: Vec<(IoKey, [f64; 2])> = [1, 2, 4, 8]
            .into_iter()
            .zip(iops)
            .map(|(files, iops)| (key("random-write", "direct", 16_384, files, 16), [iops, iops * 1.01]))
            .collect();
        let cells: Vec<(IoKey, &[f64])> = cells.iter().map(|(key, iops)| (key.clone(), &iops[..])).collect();
        advice(&run(&cells), "data_files")
    };
    assert_eq!(files([100.0, 200.0, 390.0, 400.0]).value.as_deref(), Some("4"));
    assert_eq!(files([100.0, 200.0, 300.0, 400.0]).value.as_deref(), Some("8"));
    let same = files([400.0, 398.0, 401.0, 400.0]);
    assert_eq!((same.value.as_deref(), same.innodb_value.as_deref()), (Some("1"), Some("ON")));
    golden("advice-files-alike", &same.because);
    // More files are slower here.
    assert_eq!(files([400.0, 300.0, 200.0, 100.0]).value.as_deref(), Some("1"));
    assert_eq!(files([100.0, 200.0, 400.0, 300.0]).value.as_deref(), Some("4"));
}

#[test]
fn one_number_of_files_is_no_comparison() {
    let results = run(&[(key("random-write", "direct", 16_384, 4, 16), &[100.0, 101.0])]);
    golden("advice-one-number-of-files", &advice(&results, "data_files").because);
    assert_eq!(value(&results, "io_capacity_max").as_deref(), Some("100"), "the other rules go on");
}

#[test]
fn rounds_that_overlap_are_no_difference() {
    let method = |direct: &[f64], fsync: &[f64]| {
        let cells = [
            (key("random-write", "direct", 16_384, 1, 16), direct),
            (key("random-write", "fsync", 16_384, 1, 16), fsync),
        ];
        advice(&run(&cells), "flush_method")
    };
    let more = method(&[200.0, 210.0, 220.0], &[100.0, 110.0, 120.0]);
    assert_eq!(more.innodb_value.as_deref(), Some("O_DIRECT"));
    let less = method(&[100.0, 110.0, 120.0], &[200.0, 210.0, 220.0]);
    assert_eq!(less.value.as_deref(), Some("fsync"));
    let overlapping = method(&[100.0, 200.0, 150.0], &[150.0, 140.0, 160.0]);
    let mut cases = Cases::default();
    cases.add("direct does more", &more.because);
    cases.add("rounds overlap", &overlapping.because);
    // A single round has no spread: it must lie far off.
    cases.add("one round, near", method(&[105.0], &[100.0]).because);
    cases.add("one round, far", method(&[150.0], &[100.0]).because);
    cases.check("advice-flush-method");
}

#[test]
fn a_write_past_the_page_cache_is_no_fsync() {
    let results = run(&[
        (key("random-write", "direct", 16_384, 1, 16), &[100.0, 110.0]),
        (key("random-write", "dsync", 16_384, 1, 16), &[200.0, 210.0]),
    ]);
    golden("advice-no-fsync", &advice(&results, "flush_method").because);
}

#[test]
fn a_device_alone_tells_of_itself() {
    let raw = |workload: &str, n| IoKey { access: "device".into(), ..key(workload, "direct", 16_384, 0, n) };
    let results = run(&[
        (raw("random-read", 1), &[100.0, 101.0]),
        (raw("random-read", 16), &[1000.0, 1001.0]),
        (raw("random-read", 64), &[1000.0, 1001.0]),
    ]);
    assert_eq!(value(&results, "io_depth").as_deref(), Some("16"));
    for setting in ["data_files", "flush_method", "io_capacity"] {
        assert_eq!(value(&results, setting), None, "{setting}");
    }
}

#[test]
fn without_fsync_is_never_advised() {
    for cache in ["write back", "write through", ""] {
        let mut results = study("ext4");
        results.storage.write_cache = cache.into();
        let advice = advice(&results, "flush_method");
        assert_ne!(advice.innodb_value.as_deref(), Some("O_DIRECT_NO_FSYNC"));
        assert!(advice.because.contains("O_DIRECT_NO_FSYNC"), "{}", advice.because);
    }
}

#[test]
fn the_page_size_that_reads_pay_for() {
    let size = |small: f64, large: f64| {
        let rounds = |iops: f64| [iops, iops * 1.02];
        let (small, large) = (rounds(small), rounds(large));
        let cells = [
            (key("random-read", "direct", 4096, 4, 64), &small[..]),
            (key("random-read", "direct", 16_384, 4, 64), &large[..]),
        ];
        advice(&run(&cells), "page_size")
    };
    assert_eq!(size(100_000.0, 35_000.0).value.as_deref(), Some("4K"));
    let little = size(130.0, 100.0);
    assert_eq!(little.innodb_value.as_deref(), Some("16K"));
    let one = run(&[(key("random-read", "direct", 16_384, 4, 64), &[1.0])]);
    let mut cases = Cases::default();
    cases.add("small pages gain little", &little.because);
    cases.add("no difference", size(100.0, 100.0).because);
    cases.add("one size", advice(&one, "page_size").because);
    cases.check("advice-page-size");
    // A page has 4K to 16K: what other blocks do is no reason for one of their size.
    let other = |bytes: u32, iops: &'static [f64]| (key("random-read", "direct", bytes, 4, 64), iops);
    let (sector, megabyte) = (other(512, &[400_000.0]), other(1 << 20, &[100_000.0]));
    let none = run(&[sector.clone(), megabyte.clone(), other(16_384, &[100.0])]);
    assert!(advice(&none, "page_size").because.ends_with("--block 4K,16K"));
    for (large, page) in [(35_000.0, "4K"), (100_000.0, "16K")] {
        let large = [large];
        let all = [
            sector.clone(),
            other(4096, &[100_000.0]),
            (key("random-read", "direct", 16_384, 4, 64), &large[..]),
            megabyte.clone(),
        ];
        assert_eq!(value(&run(&all), "page_size").as_deref(), Some(page));
    }
}

#[test]
fn pages_are_counted_in_blocks_of_their_size() {
    let most = |cells: &[(u32, f64)]| {
        let rounds: Vec<[f64; 1]> = cells.iter().map(|(_, iops)| [*iops]).collect();
        let keys = cells.iter().map(|(bytes, _)| key("random-write", "direct", *bytes, 1, 16));
        let cells: Vec<(IoKey, &[f64])> = keys.zip(rounds.iter().map(|iops| &iops[..])).collect();
        value(&run(&cells), "io_capacity_max")
    };
    assert_eq!(most(&[(512, 9000.0), (4096, 8000.0), (1 << 20, 100.0)]).as_deref(), Some("8000"));
    assert_eq!(most(&[(4096, 8000.0), (16_384, 4000.0), (1 << 20, 100.0)]).as_deref(), Some("4000"));
    assert_eq!(most(&[(65_536, 1000.0), (1 << 20, 100.0)]).as_deref(), Some("1000"));
}

#[test]
fn the_least_depth_that_reaches_95_percent() {
    let depth = |iops: [f64; 4]| {
        let rounds = iops.map(|iops| [iops, iops]);
        let cells: Vec<(IoKey, &[f64])> = [1, 4, 16, 64]
            .into_iter()
            .zip(&rounds)
            .map(|(n, iops)| (key("random-read", "direct", 16_384, 4, n), &iops[..]))
            .collect();
        advice(&run(&cells), "io_depth")
    };
    let found = depth([100.0, 390.0, 960.0, 1000.0]);
    assert_eq!((found.value.as_deref(), found.innodb_value.as_deref()), (Some("16"), Some("4")));
    let rising = depth([100.0, 200.0, 400.0, 800.0]);
    assert_eq!(rising.value.as_deref(), Some("64 or more"));
    assert_eq!(depth([1000.0, 990.0, 980.0, 970.0]).value.as_deref(), Some("1"));
    let one = run(&[(key("random-read", "direct", 16_384, 4, 64), &[1.0])]);
    let mut cases = Cases::default();
    cases.add("still rising", &rising.because);
    cases.add("one depth", advice(&one, "io_depth").because);
    cases.check("advice-io-depth");
    // Reads from the page cache say nothing about the disk.
    let cached: Vec<(IoKey, &[f64])> =
        [1, 4].map(|n| (key("random-read", "buffered", 16_384, 4, n), &[1e6][..])).into();
    assert_eq!(value(&run(&cached), "io_depth"), None);
}

#[test]
fn more_threads_where_the_defaults_do_not_keep_enough_in_flight() {
    let cells = [
        (key("random-read", "direct", 16_384, 4, 64), &[100.0][..]),
        (key("random-read", "direct", 16_384, 4, 2048), &[200.0][..]),
    ];
    assert_eq!(advice(&run(&cells), "io_depth").innodb_value.as_deref(), Some("8"));
}

#[test]
fn capacity_is_what_the_worst_round_sustains() {
    let cells = [
        (key("random-write", "direct", 16_384, 1, 1), &[900.0, 950.0, 1000.0][..]),
        (key("random-write", "direct", 16_384, 1, 16), &[4567.0, 5000.0, 5100.0][..]),
    ];
    let mut results = run(&cells);
    assert_eq!(value(&results, "io_capacity_max").as_deref(), Some("4500"));
    assert_eq!(value(&results, "io_capacity").as_deref(), Some("2200"));
    results.storage.atomic_write_max_bytes = Some(16_384);
    let atomic = advice(&results, "io_capacity");
    assert_eq!((atomic.value.as_deref(), atomic.innodb_value.as_deref()), (Some("3400"), Some("2200")));
    let slow = run(&[(key("random-write", "direct", 16_384, 1, 1), &[40.0, 41.0])]);
    assert_eq!(value(&slow, "io_capacity").as_deref(), Some("100"), "the least that InnoDB takes");
}

#[test]
fn capacity_is_of_the_files_and_the_mode_that_are_advised() {
    let cells = [
        (key("random-write", "direct", 16_384, 1, 16), &[1000.0, 1001.0][..]),
        (key("random-write", "direct", 16_384, 4, 16), &[3000.0, 3001.0][..]),
        (key("random-write", "fsync", 16_384, 1, 16), &[9000.0, 9001.0][..]),
        (key("random-write", "fsync", 16_384, 4, 16), &[2000.0, 2001.0][..]),
    ];
    let results = run(&cells);
    assert_eq!(value(&results, "data_files").as_deref(), Some("4"));
    assert_eq!(value(&results, "flush_method").as_deref(), Some("O_DIRECT"));
    assert_eq!(value(&results, "io_capacity_max").as_deref(), Some("3000"));
}

#[test]
fn the_log_and_the_doublewrite() {
    let results = full();
    let log = advice(&results, "flush_log_at_trx_commit");
    assert_eq!(log.innodb_value.as_deref(), Some("1"));
    let doublewrite = advice(&results, "doublewrite");
    assert_eq!(doublewrite.value.as_deref(), Some("OFF with atomic writes"));
    assert_eq!(doublewrite.innodb_value.as_deref(), Some("ON"));
    let mut cases = Cases::default();
    cases.add("flush_log_at_trx_commit", &log.because);
    cases.add("doublewrite", &doublewrite.because);
    cases.check("advice-log-and-doublewrite");
    let mut torn = results;
    torn.storage.atomic_write_max_bytes = Some(4096);
    assert_eq!(value(&torn, "doublewrite").as_deref(), Some("ON"), "4K are no page of 16K");
}

#[test]
fn text_has_a_row_for_each_and_says_what_run_it_is() {
    let mut results = full();
    let plain = Style { colour: false, width: 120 };
    let printed = text(&results, plain);
    golden("advice", &printed);
    results.settings.quick = true;
    let mut cases = Cases::default();
    cases.add("quick", caveat(&results).unwrap());
    results.interrupted = true;
    cases.add("interrupted", caveat(&results).unwrap());
    cases.check("advice-caveats");
    let widest = printed.lines().map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 120, "{printed}");
}
