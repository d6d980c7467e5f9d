//! Progress output: bars on a terminal, finished rows everywhere.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The output of a run. Bars and notes go to standard error, rows to standard output.
pub struct Progress {
    is_terminal: bool,
}

impl Progress {
    pub fn new() -> Self {
        Progress { is_terminal: stderr().is_terminal() }
    }

    /// Prints one line about an event.
    pub fn note(&self, text: &str) {
        // A closed output does not stop the run.
        let _ = writeln!(stderr(), "flifo: {text}");
    }

    /// The bar of a load.
    pub fn load(&self, rows: u32) -> ProgressBar {
        self.bar(u64::from(rows), "loading {bar:30} {percent}% of {human_len} rows, {eta} left {msg}")
    }

    /// The bar of the buffer pool's warm-up.
    pub fn warm(&self, rows: u32) -> ProgressBar {
        self.bar(u64::from(rows), "reading {bar:30} {percent}% of {human_len} rows, {eta} left")
    }

    /// The bar of a check of all rows.
    pub fn check(&self, rows: u32) -> ProgressBar {
        self.bar(u64::from(rows), "checking {bar:30} {percent}% of {human_len} rows, {eta} left")
    }

    /// The bar of rows being loaded into several tables.
    pub fn load_all(&self, rows: u64) -> ProgressBar {
        self.bar(rows, "loading {bar:30} {percent}% of {human_len} rows, {eta} left {msg}")
    }

    /// The bar of a check of that many rows.
    pub fn check_all(&self, rows: u64) -> ProgressBar {
        self.bar(rows, "checking {bar:30} {percent}% of {human_len} rows, {eta} left")
    }

    /// The bar of warehouses being checked.
    pub fn warehouses(&self, warehouses: u32) -> ProgressBar {
        self.bar(u64::from(warehouses), "checking {bar:30} {pos}/{len} warehouses, {eta} left")
    }

    /// The bar of test files being written.
    pub fn files(&self, bytes: u64) -> ProgressBar {
        self.bar(bytes, "writing {msg} {bar:30} {percent}% of {total_bytes}, {eta} left, {bytes_per_sec}")
    }

    /// The bar of a redo log being replayed.
    pub fn recovery(&self, bytes: u64) -> ProgressBar {
        self.bar(bytes, "recovering {bar:30} {percent}% of {total_bytes} of redo log, {eta} left")
    }

    /// The bar of pages being checked.
    pub fn pages(&self, pages: u64) -> ProgressBar {
        self.bar(pages, "checking {bar:30} {percent}% of {human_len} pages, {eta} left")
    }

    /// The bar of the whole sweep.
    pub fn sweep(&self, steps: usize, step: Duration) -> SweepBar {
        let bar = self.bar(steps as u64, "{bar:30} {pos}/{len}  {msg}");
        SweepBar { bar, begun: Instant::now(), steps, done: 0, step }
    }

    fn bar(&self, length: u64, template: &str) -> ProgressBar {
        let target = if self.is_terminal {
            ProgressDrawTarget::stderr_with_hz(5)
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template(template)
            .expect("the templates above are well formed")
            .progress_chars("━╸ ");
        ProgressBar::with_draw_target(Some(length), target).with_style(style)
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

/// The progress of the sweep.
pub struct SweepBar {
    bar: ProgressBar,
    begun: Instant,
    steps: usize,
    done: usize,
    /// What a step takes at least, for the time left before the first is done.
    step: Duration,
}

impl SweepBar {
    /// Shows the running step.
    pub fn running(&self, what: &str) {
        self.bar.set_message(format!("{what}, {} left", minutes(self.left())));
    }

    /// Advances by one step.
    pub fn advance(&mut self) {
        self.done += 1;
        self.bar.inc(1);
    }

    /// Prints a finished row above the bar.
    pub fn row(&self, row: &str) {
        self.bar.suspend(|| {
            // A closed reader misses rows; the run continues for its files.
            let _ = writeln!(stdout(), "{row}");
        });
    }

    /// Prints a cell's row in rounds that show it: the first round fills the table for a watcher, on a terminal only;
    /// the last one has the medians.
    pub fn cell_row(&self, round: u32, rounds: u32, row: impl FnOnce() -> String) {
        if round + 1 == rounds || round == 0 && !self.bar.is_hidden() {
            self.row(&row());
        }
    }

    /// Prints one line about an event above the bar.
    pub fn note(&self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(stderr(), "flifo: {text}");
        });
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn left(&self) -> Duration {
        let mean = match self.done {
            0 => self.step,
            done => self.begun.elapsed() / done as u32,
        };
        mean * (self.steps - self.done) as u32
    }
}

/// `3:07`.
pub(crate) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_minutes() {
        assert_eq!(minutes(Duration::from_millis(59_600)), "1:00");
        assert_eq!(minutes(Duration::from_secs(5)), "0:05");
        assert_eq!(minutes(Duration::from_secs(3_725)), "62:05");
    }

    #[test]
    fn the_time_left_begins_with_the_plan() {
        let bar = Progress { is_terminal: false }.sweep(10, Duration::from_secs(2));
        assert_eq!(bar.left(), Duration::from_secs(20));
    }
}
