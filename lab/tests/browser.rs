//! Opens the page in a real browser: are the charts drawn, in both themes, without network access?
//!
//! Skipped with a message if there is no Chromium; `FLIFO_REQUIRE_BROWSER=1` makes that a failure, and `FLIFO_BROWSER`
//! names a browser outside the path.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flifo::report::iobench;
use flifo::report::sweep::{fixture, html};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// What the fixture's page must show: two workloads with twelve charts each, and one more where a transaction is not a
/// statement.
const CHARTS: usize = 2 * 12 + 1;
/// Lines of a workload: throughput, the published one, four latencies, switches, W and S, gain, and the server's and
/// the client's part in three charts of CPU time; and the transactions of one of them.
const LINES: usize = 2 * (3 + 4 + 4 * 3 + 3 + 4 + 2 + 3 * 2) + 3;
/// Their points: eleven each, but nobody waits for a wake-up below 8 connections (two W, one bound).
const POINTS: usize = 11 * LINES - 2 * 3 * 3;
/// Five parts of the CPU time, for three policies, at eleven numbers of connections.
const BARS: usize = 2 * 5 * 3 * 11;

#[test]
fn the_page_is_drawn_in_light_and_in_dark() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    std::fs::write(&page, html(&fixture::results()).unwrap()).unwrap();
    // What Chromium calls preferredColorScheme: 0 is dark, 1 is light.
    for (theme, scheme, flifo_colour) in [("light", 1, "rgb(0, 114, 178)"), ("dark", 0, "rgb(86, 180, 233)")]
    {
        let dom = dump(&browser, &page, scheme, dir.path());
        let root = dom.lines().find(|line| line.contains("<html")).unwrap_or_default();
        let root = &root[..root.find("><").unwrap_or(root.len())];
        assert!(!root.contains("data-error"), "{theme}: the page reports an error: {root}");
        assert!(root.contains(&format!("data-drawn=\"{CHARTS}\"")), "{theme}: {root}");
        assert!(root.contains(&format!("data-theme=\"{theme}\"")), "{theme}: {root}");
        let count = |mark: &str| dom.matches(mark).count();
        assert_eq!(count("class=\"trace scatter trace"), LINES, "{theme}: lines");
        assert_eq!(count("<path class=\"point"), POINTS, "{theme}: points");
        assert_eq!(count("<g class=\"point\"><path"), BARS, "{theme}: bars");
        assert!(count("class=\"yerror") > LINES, "{theme}: bars from the lowest to the highest round");
        assert!(dom.contains(&format!("stroke: {flifo_colour}")), "{theme}: flifo's colour");
        assert_eq!(count(" src=\"http") + count("<link"), 0, "{theme}: something to fetch");
    }
}

/// A bench's page: four panels of seven charts, on logarithmic axes, each variant a line of its own colour.
#[test]
fn the_page_of_a_bench_is_drawn() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    std::fs::write(&page, html(&fixture::bench()).unwrap()).unwrap();
    for (theme, scheme, tokio_colour) in [("light", 1, "rgb(61, 61, 143)"), ("dark", 0, "rgb(154, 154, 240)")]
    {
        let dom = dump(&browser, &page, scheme, dir.path());
        let root = dom.lines().find(|line| line.contains("<html")).unwrap_or_default();
        let root = &root[..root.find("><").unwrap_or(root.len())];
        assert!(!root.contains("data-error"), "{theme}: the page reports an error: {root}");
        assert!(root.contains("data-drawn=\"28\""), "{theme}: {root}");
        // Five charts of all five variants, two of the policies alone, in one of which each has two lines.
        let lines = dom.matches("class=\"trace scatter trace").count();
        assert_eq!(lines, 4 * (5 * 5 + 2 + 2 * 2), "{theme}: lines");
        assert!(dom.contains(&format!("stroke: {tokio_colour}")), "{theme}: tokio's colour");
    }
}

/// The graphs over time of a sweep that writes: every one is drawn, one above the other, with equal margins.
#[test]
fn the_graphs_over_time_are_drawn() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let text = html(&fixture::writing()).unwrap();
    std::fs::write(&page, &text).unwrap();
    // Two workloads of three policies, five graphs each.
    assert_eq!(text.matches("<figure class=\"stack\">").count(), 2 * 3);
    assert_eq!(text.matches("aria-label=\"flifo, 1024 connections: ").count(), 2 * 5);
    let charts = text.matches("class=\"chart\" data-chart=").count();
    let dom = dump(&browser, &page, 1, dir.path());
    let root = dom.lines().find(|line| line.contains("<html")).unwrap_or_default();
    let root = &root[..root.find("><").unwrap_or(root.len())];
    assert!(!root.contains("data-error"), "the page reports an error: {root}");
    assert!(root.contains(&format!("data-drawn=\"{charts}\"")), "{charts}: {root}");
}

/// A storage page: five panels of five charts, each with a line for every curve.
#[test]
fn the_page_of_an_iobench_is_drawn() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let mut results = iobench::fixture::full();
    results.experiment = "linux-io-2012".into();
    std::fs::write(&page, iobench::html(&results).unwrap()).unwrap();
    // Reads: the device and four numbers of files, at two sizes. Writes and both: four, two modes, two sizes. The
    // log has two modes, the doublewrite one.
    let curves = 5 * 2 + 2 * (4 * 2 * 2) + 2 + 1;
    for (theme, scheme, one_file) in [("light", 1, "rgb(213, 94, 0)"), ("dark", 0, "rgb(243, 146, 77)")] {
        let dom = dump(&browser, &page, scheme, dir.path());
        let root = dom.lines().find(|line| line.contains("<html")).unwrap_or_default();
        let root = &root[..root.find("><").unwrap_or(root.len())];
        assert!(!root.contains("data-error"), "{theme}: the page reports an error: {root}");
        assert!(root.contains("data-drawn=\"25\""), "{theme}: {root}");
        let lines = dom.matches("class=\"trace scatter trace").count();
        assert_eq!(lines, 5 * curves, "{theme}: lines");
        assert!(dom.contains(&format!("stroke: {one_file}")), "{theme}: one file's colour");
        assert!(dom.contains("inconclusive") && dom.contains("innodb_io_capacity_max"), "{theme}");
    }
}

#[test]
fn the_reader_switches_theme_and_axis() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let reader = "<script>addEventListener('load', () => {
        document.getElementById('theme').click();
        document.querySelector('[data-log]').click();
        const chart = document.querySelector('.chart');
        chart.on('plotly_afterplot', () => { chart.dataset.axis = chart._fullLayout.yaxis.type; });
    });</script></body>";
    let read = html(&fixture::results()).unwrap().replace("</body>", reader);
    std::fs::write(&page, read).unwrap();
    let dom = dump(&browser, &page, 1, dir.path());
    assert!(!dom.contains("data-error"), "the page reports an error");
    assert!(dom.contains("data-theme=\"dark\"") && dom.contains("stroke: rgb(86, 180, 233)"), "theme");
    assert!(dom.contains("aria-pressed=\"true\"") && dom.contains("data-axis=\"log\""), "logarithmic axis");
}

/// A page that does ask the network must be caught by what the test above relies on: the page's policy
/// blocks the request, and its script reports that.
#[test]
fn a_request_to_the_network_would_be_seen() {
    let Some(browser) = browser() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let asking = format!("<img src=\"http://{address}/spy.png\"></body>");
    let spoilt = html(&fixture::results()).unwrap().replace("</body>", &asking);
    std::fs::write(&page, spoilt).unwrap();
    let dom = dump(&browser, &page, 1, dir.path());
    assert!(dom.contains("data-error=\"blocked http"), "the policy lets a request through in silence");
    assert!(listener.accept().is_err(), "the browser came to {address}");
}

fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("FLIFO_BROWSER").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let in_path = || {
        let places = std::env::split_paths(&paths).flat_map(|dir| NAMES.map(|name| dir.join(name)));
        places.into_iter().find(|path| path.is_file())
    };
    let found = named.or_else(in_path);
    if found.is_none() {
        let required = std::env::var_os("FLIFO_REQUIRE_BROWSER").is_some_and(|value| value == "1");
        assert!(!required, "FLIFO_REQUIRE_BROWSER=1, but none of {NAMES:?} is in the path");
        eprintln!("skipped: no Chromium in the path (set FLIFO_BROWSER to name one)");
    }
    found
}

/// The document after its scripts have run.
fn dump(browser: &Path, page: &Path, scheme: u32, dir: &Path) -> String {
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--window-size=1280,900", "--virtual-time-budget=30000"])
        .arg(format!("--user-data-dir={}", dir.join(format!("profile-{scheme}")).display()))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", browser.display()));
    let mut dom = String::new();
    child.stdout.take().unwrap().read_to_string(&mut dom).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{} ended with {status}", browser.display());
    dom
}
