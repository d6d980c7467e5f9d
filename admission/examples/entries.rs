//! So many entries and exits of one session that need not queue, to count what they cost:
//!
//! ```sh
//! cargo build --release -p flifo-admission --example entries
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/entries 100000
//! ```
//!
//! The difference between two runs, divided by the difference of their arguments, is the instructions of one entry and exit.

use flifo_admission::{Admission, Config};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let entries: u64 = std::env::args().nth(1).ok_or("how many entries?")?.parse()?;
    let admission = Admission::new(Config { watchdog: false, ..Config::default() })?;
    let session = admission.session();
    for _ in 0..entries {
        session.enter()?;
        session.exit();
    }
    Ok(())
}
