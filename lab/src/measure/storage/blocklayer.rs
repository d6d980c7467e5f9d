//! The counters of a disk's driver: `/sys/block/NAME/stat`.
//!
//! The difference over a round shows what happened to the application's I/Os on their way down: merged, split, combined
//! with the file system's own journal writes, followed by flushes.

use std::fs;

use crate::results::io::BlockLayer;

/// Bytes of a sector in this file, whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// Totals of a disk since the system started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    reads: u64,
    read_sectors: u64,
    read_ms: u64,
    writes: u64,
    written_sectors: u64,
    write_ms: u64,
    busy_ms: u64,
    /// Time of each request, added up.
    in_flight_ms: u64,
    /// 0 before Linux 5.5, which does not count them.
    flushes: u64,
}

impl Counters {
    /// Reads the counters of `device`, a name in `/sys/block`. `None` if there is no such disk, or the kernel hides it.
    pub fn read(device: &str) -> Option<Counters> {
        if device.is_empty() || device.contains('/') {
            return None;
        }
        parse(&fs::read_to_string(format!("/sys/block/{device}/stat")).ok()?)
    }

    /// The difference between two readings that are `elapsed_s` apart.
    pub fn since(&self, earlier: &Counters, elapsed_s: f64) -> BlockLayer {
        let reads = difference(earlier.reads, self.reads);
        let writes = difference(earlier.writes, self.writes);
        let each = |ms: u64, requests: u64| if requests > 0 { ms as f64 / requests as f64 } else { 0.0 };
        let share = |ms: u64| if elapsed_s > 0.0 { ms as f64 / (elapsed_s * 1e3) } else { 0.0 };
        BlockLayer {
            reads,
            writes,
            flushes: difference(earlier.flushes, self.flushes),
            read_bytes: difference(earlier.read_sectors, self.read_sectors) * SECTOR_BYTES,
            written_bytes: difference(earlier.written_sectors, self.written_sectors) * SECTOR_BYTES,
            read_ms: each(difference(earlier.read_ms, self.read_ms), reads),
            write_ms: each(difference(earlier.write_ms, self.write_ms), writes),
            // The kernel counts in ticks: a busy disk can come out a little above the whole.
            busy_pct: (100.0 * share(difference(earlier.busy_ms, self.busy_ms))).min(100.0),
            in_flight: share(difference(earlier.in_flight_ms, self.in_flight_ms)),
        }
    }
}

/// The kernel prints milliseconds as 32 bits, so they wrap after 50 days of work.
fn difference(earlier: u64, later: u64) -> u64 {
    later.checked_sub(earlier).unwrap_or_else(|| (later + (1 << 32)).saturating_sub(earlier))
}

/// 11 fields, 15 since Linux 4.18 (discards), 17 since 5.5 (flushes).
fn parse(stat: &str) -> Option<Counters> {
    let fields: Vec<u64> = stat.split_whitespace().map(|field| field.parse().ok()).collect::<Option<_>>()?;
    if fields.len() < 11 {
        return None;
    }
    Some(Counters {
        reads: fields[0],
        read_sectors: fields[2],
        read_ms: fields[3],
        writes: fields[4],
        written_sectors: fields[6],
        write_ms: fields[7],
        busy_ms: fields[9],
        in_flight_ms: fields[10],
        flushes: fields.get(15).copied().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = " 100 9 800 50 200 9 1600 400 0 1000 450 1 1 8 1 30 20\n";

    #[test]
    fn a_round_by_hand() {
        let after = " 1100 9 8800 1050 700 9 17600 2900 4 2900 5950 1 1 8 1 130 40\n";
        let layer = parse(after).unwrap().since(&parse(BEFORE).unwrap(), 2.0);
        assert_eq!((layer.reads, layer.writes, layer.flushes), (1000, 500, 100));
        assert_eq!((layer.read_bytes, layer.written_bytes), (8000 * 512, 16_000 * 512));
        // 1000 ms for 1000 reads, 2500 ms for 500 writes; 1900 of 2000 ms busy; 5500 ms of requests.
        assert_eq!((layer.read_ms, layer.write_ms), (1.0, 5.0));
        assert_eq!((layer.busy_pct, layer.in_flight), (95.0, 2.75));
    }

    #[test]
    fn older_kernels_have_fewer_fields() {
        let fields: Vec<&str> = BEFORE.split_whitespace().collect();
        for count in [11, 15] {
            let counters = parse(&fields[..count].join(" ")).unwrap();
            assert_eq!((counters.reads, counters.in_flight_ms, counters.flushes), (100, 450, 0));
        }
        assert_eq!(parse(&fields[..10].join(" ")), None);
        assert_eq!(parse("1 2 3 x 5 6 7 8 9 10 11"), None);
    }

    #[test]
    fn an_idle_round_and_one_of_no_length() {
        let counters = parse(BEFORE).unwrap();
        assert_eq!(counters.since(&counters, 1.0), BlockLayer::default());
        assert_eq!(counters.since(&Counters::default(), 0.0).busy_pct, 0.0);
    }

    #[test]
    fn milliseconds_that_wrapped() {
        assert_eq!(difference((1 << 32) - 10, 5), 15);
        assert_eq!(difference(7, 7), 0);
    }

    #[test]
    fn names_that_are_no_disk() {
        for name in ["", "no-such-disk", "../block/vda", "."] {
            assert_eq!(Counters::read(name), None, "{name:?}");
        }
    }
}
