//! FLIFO against the unmodified server: the curve that motivates this project.

use serde::Deserialize;

use super::{FIGURES, PublishedError, Title, check_claims, check_curve, check_positive, invalid, study};

const NAME: &str = "flifo-2009";

/// The study's published figures.
#[derive(Debug, Deserialize)]
#[serde(from = "Table")]
pub struct Flifo2009 {
    pub title: Title,
    pub server: String,
    pub workload: String,
    /// Facts that the source does not state.
    pub unsaid: [&'static str; 2],
    pub threads: Vec<u32>,
    pub flifo: PublishedCurve,
    pub original: PublishedCurve,
    pub claims: Vec<String>,
}

/// One line of the published picture, and a line of vmstat.
#[derive(Debug)]
pub struct PublishedCurve {
    pub label: String,
    /// The limit, innodb_thread_concurrency.
    pub limit: u32,
    pub transactions_per_s: Vec<f64>,
    pub vmstat: VmStat,
}

/// A line of vmstat during the test.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmStat {
    pub runnable: u32,
    pub context_switches_per_s: f64,
    pub user: f64,
    pub system: f64,
    pub idle: f64,
    pub wait: f64,
}

/// The table as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    title: Title,
    server: String,
    workload: String,
    threads_assumed: Vec<u32>,
    tps_flifo: Vec<f64>,
    tps_original: Vec<f64>,
    flifo: Limit,
    original: Limit,
    vmstat_flifo: VmStat,
    vmstat_original: VmStat,
    claims: Vec<String>,
}

/// The settings of a curve; the others are in `commands::experiment`.
#[derive(Deserialize)]
struct Limit {
    thread_concurrency: u32,
}

impl From<Table> for Flifo2009 {
    fn from(table: Table) -> Self {
        let curve = |label: &str, limit: &Limit, transactions_per_s, vmstat| PublishedCurve {
            label: format!("{label}, limit {}", limit.thread_concurrency),
            limit: limit.thread_concurrency,
            transactions_per_s,
            vmstat,
        };
        Flifo2009 {
            flifo: curve("flifo", &table.flifo, table.tps_flifo, table.vmstat_flifo),
            original: curve("original (fifo)", &table.original, table.tps_original, table.vmstat_original),
            title: table.title,
            server: table.server,
            workload: table.workload,
            unsaid: [
                "the numbers of threads: eleven values are printed, taken here as the doublings from 1 to 1024",
                "at how many threads the context switches were sampled",
            ],
            threads: table.threads_assumed,
            claims: table.claims,
        }
    }
}

impl Flifo2009 {
    /// The figures included in the program.
    pub fn load() -> Self {
        Self::parse(FIGURES).expect("a test reads the file that was compiled in")
    }

    fn parse(text: &str) -> Result<Self, PublishedError> {
        let study: Flifo2009 = study(text, NAME)?;
        if study.threads.is_empty() || !study.threads.is_sorted_by(|a, b| a < b) {
            return Err(invalid(format!("{NAME}.threads_assumed must ascend")));
        }
        for (name, curve) in [("flifo", &study.flifo), ("original", &study.original)] {
            check_curve(&format!("{NAME}.tps_{name}"), &curve.transactions_per_s, study.threads.len())?;
            let vmstat = curve.vmstat;
            check_positive(&format!("{NAME}.vmstat_{name}"), &[vmstat.context_switches_per_s])?;
            let cpu = vmstat.user + vmstat.system + vmstat.idle + vmstat.wait;
            if (cpu - 100.0).abs() > 1.0 {
                return Err(invalid(format!("{NAME}.vmstat_{name}: CPU shares add up to {cpu}, not to 100")));
            }
        }
        check_claims(NAME, &study.claims, 3)?;
        Ok(study)
    }
}

impl PublishedCurve {
    /// Highest throughput.
    pub fn peak_per_s(&self) -> f64 {
        self.transactions_per_s.iter().copied().fold(f64::MIN, f64::max)
    }

    /// Throughput at the last point.
    pub fn last_per_s(&self) -> f64 {
        self.transactions_per_s[self.transactions_per_s.len() - 1]
    }

    /// Throughput at the last point against the peak.
    pub fn flatness(&self) -> f64 {
        self.last_per_s() / self.peak_per_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;

    #[test]
    fn the_file_carried_is_sound_and_says_what_was_printed() {
        let published = Flifo2009::parse(FIGURES).unwrap();
        let ratio = published.flifo.last_per_s() / published.original.last_per_s();
        assert_eq!(format!("{ratio:.1}"), "2.5");
        assert_eq!(format!("{:.3}", published.flifo.flatness()), "0.887");
        assert_eq!(format!("{:.3}", published.original.flatness()), "0.387");
        assert_eq!((published.flifo.limit, published.original.limit), (16, 32));
        assert_eq!((published.title.year, published.original.vmstat.runnable), (2009, 53));
    }

    #[test]
    fn a_spoilt_file_is_refused_with_the_reason() {
        let spoil = |from: &str, to: &str| {
            let text = FIGURES.replacen(from, to, 1);
            assert_ne!(text, FIGURES);
            Flifo2009::parse(&text).unwrap_err().to_string()
        };
        let mut cases = Cases::default();
        cases.add("a figure is missing", spoil("186.22, ", ""));
        cases.add("a figure is negative", spoil("186.22", "-1.0"));
        cases.add("threads descend", spoil("[1, 2,", "[2, 1,"));
        cases.add("CPU shares", spoil("idle = 8", "idle = 80"));
        let unknown = spoil("tps_flifo", "tps_filo");
        cases.add("an unknown key", unknown.lines().next().unwrap_or_default());
        cases.add("no year", spoil("InnoDB (2009)", "InnoDB").lines().next().unwrap_or_default());
        cases.check("published-errors");
    }
}
