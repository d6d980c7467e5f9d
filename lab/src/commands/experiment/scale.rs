//! How much of a study is run: a size, and what the command line sets.

use super::args::ScaleArgs;

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Under two minutes.
    Quick,
    /// Under 20 minutes.
    Default,
    /// As published, as far as the machine carries it.
    Full,
}

impl Size {
    /// The name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Size::Quick => "quick",
            Size::Default => "default",
            Size::Full => "full",
        }
    }
}

/// The doublings from 1 to 1024, as all studies have them.
const DOUBLINGS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const ROWS: u32 = 2_000_000;
const QUICK_ROWS: u32 = 200_000;

/// The scale of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale<'a> {
    args: &'a ScaleArgs,
}

impl<'a> Scale<'a> {
    pub(crate) fn of(args: &'a ScaleArgs) -> Self {
        Scale { args }
    }

    pub(crate) fn size(self) -> Size {
        match (self.args.quick, self.args.full) {
            (true, _) => Size::Quick,
            (_, true) => Size::Full,
            _ => Size::Default,
        }
    }

    /// One of three values.
    pub(crate) fn pick<T>(self, quick: T, default: T, full: T) -> T {
        match self.size() {
            Size::Quick => quick,
            Size::Default => default,
            Size::Full => full,
        }
    }

    /// The given numbers of threads, or these; `quick` with --quick, all doublings with --full.
    pub(crate) fn threads(self, quick: &[u32], default: &[u32]) -> Vec<u32> {
        match &self.args.threads[..] {
            [] => self.pick(quick, default, &DOUBLINGS).to_vec(),
            given => given.to_vec(),
        }
    }

    /// The doublings from 1 to 1024, or with --quick these.
    pub(crate) fn doublings(self, quick: &[u32]) -> Vec<u32> {
        self.threads(quick, &DOUBLINGS)
    }

    pub(crate) fn rows(self) -> u32 {
        self.args.table_size.unwrap_or(self.pick(QUICK_ROWS, ROWS, ROWS))
    }

    /// Whether it is the smallest.
    pub(crate) fn is_quick(self) -> bool {
        self.size() == Size::Quick
    }

    /// One of three values.
    pub(crate) fn pick_of<T>(self, [quick, default, full]: [T; 3]) -> T {
        self.pick(quick, default, full)
    }

    /// The numbers of threads that the command line sets; none without.
    pub(crate) fn given_threads(self) -> &'a [u32] {
        &self.args.threads
    }

    /// The rows that the command line sets.
    pub(crate) fn given_rows(self) -> Option<u32> {
        self.args.table_size
    }

    /// Seconds of a cell.
    pub(crate) fn time_s(self, time_s: [f64; 3]) -> f64 {
        self.args.time.unwrap_or(self.pick_of(time_s))
    }

    /// Rounds of a cell.
    pub(crate) fn rounds(self, rounds: [u32; 3]) -> u32 {
        self.args.rounds.unwrap_or(self.pick_of(rounds))
    }

    /// The options of a sweep for time, rounds, rows and the buffer pool that holds them.
    pub(crate) fn options(self, time_s: [f64; 3], rounds: [u32; 3]) -> String {
        let pool = if self.rows() <= QUICK_ROWS { "256M" } else { "1G" };
        format!("{} --buffer-pool {pool}", self.server_options(time_s, rounds))
    }

    /// The same of a sweep of a server, which has its own buffer pool.
    pub(crate) fn server_options(self, time_s: [f64; 3], rounds: [u32; 3]) -> String {
        let (time_s, rounds) = (self.time_s(time_s), self.rounds(rounds));
        format!("--time {time_s} --rounds {rounds} --table-size {}", self.rows())
    }
}

/// A list for a command line.
pub(crate) fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
