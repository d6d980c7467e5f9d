//! What sysbench prints at its end, read without trust.

/// Its last report: of the time since the last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Report {
    /// Events per second; an event is a statement, or a transaction of several.
    pub(crate) events_per_s: f64,
    /// Errors after which an event was tried again, such as deadlocks.
    pub(crate) errors: u64,
    /// Of an event.
    pub(crate) mean_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) max_ms: f64,
    /// Events per connection.
    pub(crate) per_connection_mean: f64,
    pub(crate) per_connection_deviation: f64,
}

impl Report {
    /// From all that it has printed.
    pub(crate) fn parse(text: &str) -> Option<Report> {
        // A checkpoint's report has the same lines, and stands before.
        let last = &text[text.rfind("SQL statistics:")?..];
        let value = |label: &str| {
            let line = last.lines().find(|line| line.trim_start().starts_with(label))?;
            Some(line.split_once(label)?.1.trim())
        };
        let number = |label: &str| value(label)?.parse::<f64>().ok();
        let (mean, deviation) = value("events (avg/stddev):")?.split_once('/')?;
        Some(Report {
            events_per_s: per_second(value("transactions:")?)?,
            errors: value("ignored errors:")?.split_whitespace().next()?.parse().ok()?,
            mean_ms: number("avg:")?,
            p95_ms: number("95th percentile:")?,
            max_ms: number("max:")?,
            per_connection_mean: mean.trim().parse().ok()?,
            per_connection_deviation: deviation.trim().parse().ok()?,
        })
    }

    /// Standard deviation of the events per connection, divided by their mean.
    pub(crate) fn variation(&self) -> Option<f64> {
        (self.per_connection_mean > 0.0).then(|| self.per_connection_deviation / self.per_connection_mean)
    }
}

/// The figure in `7227   (1479.33 per sec.)`.
fn per_second(text: &str) -> Option<f64> {
    text.split_once('(')?.1.split_whitespace().next()?.parse().ok()
}

/// The line that says why it gave up: an error with a number rather than what followed from it.
pub(super) fn complaint(text: &str) -> Option<&str> {
    let begins = |with: &'static str| text.lines().find(|line| line.starts_with(with));
    let last = || text.lines().rfind(|line| !line.trim().is_empty());
    begins("FATAL: error").or_else(|| begins("FATAL:")).or_else(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Threads started!

[ 2s ] Checkpoint report:
SQL statistics:
    transactions:                        1991   (995.24 per sec.)
    ignored errors:                      9      (4.50 per sec.)

Latency (ms):
         min:                                    0.04
         avg:                                  650.13
         max:                                 1960.49
         95th percentile:                     1678.14

Threads fairness:
    events (avg/stddev):           1.9443/1.70

[ 2s ] thds: 1024 tps: 1120.70 qps: 1120.70 (r/w/o: 0.00/1120.70/0.00) lat (ms,95%): 2045.74 err/s: 0.00 reconn/s: 0.00
SQL statistics:
    queries performed:
        read:                            0
        write:                           7227
        other:                           0
        total:                           7227
    transactions:                        7227   (1479.33 per sec.)
    queries:                             7227   (1479.33 per sec.)
    ignored errors:                      3      (0.61 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          6.8854s
    total number of events:              7227

Latency (ms):
         min:                                    0.03
         avg:                                  745.04
         max:                                 3986.50
         95th percentile:                     2362.72
         sum:                              5384393.82

Threads fairness:
    events (avg/stddev):           7.0576/3.61
    execution time (avg/stddev):   5.2582/0.66
";

    #[test]
    fn the_last_report_counts() {
        let report = Report::parse(OUTPUT).unwrap();
        let target = Report {
            events_per_s: 1479.33,
            errors: 3,
            mean_ms: 745.04,
            p95_ms: 2362.72,
            max_ms: 3986.50,
            per_connection_mean: 7.0576,
            per_connection_deviation: 3.61,
        };
        assert_eq!(report, target);
        assert!((report.variation().unwrap() - 0.5115).abs() < 1e-4);
    }

    #[test]
    fn half_a_report_is_none() {
        let end = OUTPUT.rfind("95th").unwrap();
        assert_eq!(Report::parse(&OUTPUT[..end]), None);
        assert_eq!(Report::parse(""), None);
        let nothing = OUTPUT.replace("7.0576/3.61", "0.0000/0.00");
        assert_eq!(Report::parse(&nothing).unwrap().variation(), None);
    }

    #[test]
    fn its_complaint_is_found() {
        let text = "sysbench 1.0.20\n\nFATAL: unable to connect to MySQL server on socket '/s', aborting...\n\
            FATAL: error 2002: Can't connect to local server\n";
        assert!(complaint(text).unwrap().starts_with("FATAL: error 2002"));
        assert_eq!(complaint("something\n\n"), Some("something"));
        assert_eq!(complaint(""), None);
    }
}
