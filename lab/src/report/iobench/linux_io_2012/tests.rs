//! Verdicts on made-up runs whose ratios are known.

use super::*;
use crate::golden::{Cases, golden};
use crate::report::iobench::fixture::{cell_of, empty, study};

/// Runs of writes whose I/Os per second are `iops` of (mode, block, files, processes).
fn writes(filesystem: &str, iops: impl Fn(&str, u32, u32, u32) -> f64) -> IoResults {
    let mut results = empty(filesystem);
    for mode in ["direct", "fsync"] {
        for block_bytes in [4096, 16_384] {
            for files in [1, 2, 4, 8] {
                for concurrency in [1, 4, 16, 64] {
                    let key = IoKey {
                        workload: "random-write".into(),
                        access: "file".into(),
                        mode: mode.into(),
                        block_bytes,
                        files,
                        carrier: "processes".into(),
                        concurrency,
                    };
                    let middle = iops(mode, block_bytes, files, concurrency);
                    results.cells.push(cell_of(key, &[middle * 0.99, middle, middle * 1.01]));
                }
            }
        }
    }
    results
}

fn comparisons(results: &IoResults) -> Vec<Claim> {
    compare(results, &LinuxIo2012::load())
}

#[test]
fn files_that_double_the_writes() {
    let doubling =
        writes("ext4", |mode, _, files, _| if mode == "direct" { 1000.0 * f64::from(files) } else { 1500.0 });
    let all = comparisons(&doubling);
    assert_eq!(all[0].verdict, Verdict::Holds, "{}", all[0].because);
    assert!((all[0].measured().unwrap().median - 2.0).abs() < 1e-9);
    assert_eq!(all[0].published, Some(2.0));
    // One file: 1500 with fsync against 1000; two and more: 2000 and more against 1500.
    assert_eq!((all[3].verdict, all[4].verdict), (Verdict::Holds, Verdict::Holds));
}

#[test]
fn every_part_of_a_claim_stands_by_itself() {
    let all = comparisons(&study("ext4"));
    let mut cases = Cases::default();
    for found in &all {
        cases.add(&found.claim, &found.because);
    }
    cases.check("linux-io-2012-claims");
}

#[test]
fn files_that_change_nothing() {
    let flat = writes("ext4", |mode, _, _, _| if mode == "direct" { 1000.0 } else { 500.0 });
    let all = comparisons(&flat);
    assert_eq!(all[0].verdict, Verdict::DoesNotHold, "{}", all[0].because);
    assert_eq!(all[4].verdict, Verdict::DoesNotHold, "fsync is slower here: {}", all[4].because);
}

#[test]
fn who_has_reached_the_disk_cannot_double() {
    // Two files fill the disk: from 2 to 4 and to 8 nothing can be gained, and nothing is asked.
    let full = writes("ext4", |_, _, files, _| 1000.0 * f64::from(files.min(2)));
    let found = comparisons(&full).swap_remove(0);
    assert_eq!(found.verdict, Verdict::Holds, "{}", found.because);
    golden("linux-io-2012-full-disk", &found.because);
    // One file fills it: the claim that one file serialises is refuted, not left out.
    let one = writes("ext4", |_, _, _, _| 1000.0);
    assert_eq!(comparisons(&one)[0].verdict, Verdict::DoesNotHold);
}

#[test]
fn one_process_meets_nobody_and_is_not_asked() {
    let results = writes(
        "ext4",
        |_, _, files, processes| {
            if processes == 1 { 1000.0 } else { 1000.0 * f64::from(files) }
        },
    );
    assert_eq!(comparisons(&results)[0].verdict, Verdict::Holds);
}

/// The same with rounds that differ by some percent from one number of files or processes to the next.
fn unsteady(mut results: IoResults) -> IoResults {
    for cell in &mut results.cells {
        let phase = f64::from(cell.key.files).log2() + f64::from(cell.key.concurrency).log2() / 2.0;
        for round in &mut cell.rounds {
            round.iops *= 1.0 + 0.05 * phase * (f64::from(round.round) - 1.0);
        }
    }
    results
}

#[test]
fn rounds_on_both_sides_tell_nothing() {
    let found = |factor: f64| {
        let steady = writes("ext4", |_, _, files, _| 1000.0 * factor.powf(f64::from(files).log2()));
        comparisons(&unsteady(steady)).swap_remove(0)
    };
    let at_the_mark = found(DOUBLES);
    assert_eq!(at_the_mark.verdict, Verdict::Inconclusive, "{}", at_the_mark.because);
    golden("linux-io-2012-at-the-mark", &at_the_mark.because);
    assert_eq!((found(2.0).verdict, found(1.1).verdict), (Verdict::Holds, Verdict::DoesNotHold));
}

#[test]
fn another_file_system_is_not_the_claim_s() {
    let mut cases = Cases::default();
    for filesystem in ["btrfs", ""] {
        for found in comparisons(&study(filesystem)) {
            assert_eq!(found.verdict, Verdict::Inconclusive, "{}", found.claim);
            cases.add(format!("{filesystem}: {}", found.claim), &found.because);
        }
    }
    let on_xfs = comparisons(&study("xfs"));
    cases.add("a claim about ext4 on xfs", &on_xfs[0].because);
    cases.check("linux-io-2012-other-file-system");
    assert!(on_xfs[0].measured().is_some(), "the ratio is shown all the same");
}

#[test]
fn the_device_only_read_cannot_show_that_writes_come_close() {
    let all = comparisons(&study("ext4"));
    assert_eq!(all[1].verdict, Verdict::Inconclusive);
    let mut cases = Cases::default();
    cases.add("the device was only read", &all[1].because);
    let mut without = study("ext4");
    without.cells.retain(|cell| !is_raw(&cell.key));
    cases.add("without the device", &comparisons(&without)[1].because);
    cases.check("linux-io-2012-device");
}

#[test]
fn reads_alone_can_refute_nearness() {
    let mut far = study("ext4");
    for cell in far.cells.iter_mut().filter(|cell| is_raw(&cell.key)) {
        cell.rounds.iter_mut().for_each(|round| round.iops *= 3.0);
    }
    assert_eq!(comparisons(&far)[1].verdict, Verdict::DoesNotHold);
}

#[test]
fn a_device_that_was_written_tells() {
    let mut results = study("ext4");
    for cell in
        results.cells.clone().iter().filter(|cell| cell.key.workload == "random-write" && cell.key.files == 8)
    {
        let key = IoKey { access: "device".into(), files: 0, ..cell.key.clone() };
        let iops: Vec<f64> = cell.rounds.iter().map(|round| round.iops * 1.05).collect();
        results.cells.push(cell_of(key, &iops));
    }
    let found = &comparisons(&results)[1];
    assert_eq!(found.verdict, Verdict::Holds, "{}", found.because);
}

#[test]
fn four_files_on_xfs() {
    let steps = |two: f64, four: f64| {
        writes("xfs", move |_, _, files, _| match files {
            1 => 100.0,
            2 => two,
            4 => four,
            _ => 1000.0,
        })
    };
    let verdict = |two, four| comparisons(&unsteady(steps(two, four)))[2].verdict;
    assert_eq!(verdict(500.0, 950.0), Verdict::Holds);
    assert_eq!(verdict(950.0, 950.0), Verdict::DoesNotHold, "two are enough");
    assert_eq!(verdict(500.0, 600.0), Verdict::DoesNotHold, "four are not enough");
    assert_eq!(verdict(800.0, 950.0), Verdict::Inconclusive);
}

#[test]
fn one_xfs_file_falls_or_does_not() {
    let fall = |to: f64| writes("xfs", move |_, _, _, processes| if processes >= 16 { to } else { 1000.0 });
    let found = |to| comparisons(&unsteady(fall(to))).pop().unwrap();
    assert_eq!(found(300.0).verdict, Verdict::Holds, "{}", found(300.0).because);
    assert_eq!(found(900.0).verdict, Verdict::DoesNotHold);
    // The mark is the root of 12000/40000.
    assert_eq!(found(0.3f64.sqrt() * 1000.0).verdict, Verdict::Inconclusive);
    assert!((found(300.0).published.unwrap() - 0.3).abs() < 1e-12);
}

#[test]
fn a_single_round_and_an_empty_run() {
    let mut results = study("ext4");
    results.cells.iter_mut().for_each(|cell| cell.rounds.truncate(1));
    for found in comparisons(&results) {
        assert_eq!(found.verdict, Verdict::Inconclusive, "{}: {}", found.claim, found.because);
    }
    for found in comparisons(&empty("ext4")) {
        assert!(found.verdict == Verdict::Inconclusive && found.measured().is_none(), "{}", found.claim);
    }
}
