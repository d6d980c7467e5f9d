//! The cost that the C interface adds to an uncontended entry: `cargo bench -p flifo-admission-c`.
//!
//! Rust and C alternate in short rounds. The table shows the best round of each and the median of the rounds'
//! differences; `-- --record` writes them to figures/through-c.json. The C functions are called by address, as a program calls those of a shared library.

use std::hint::black_box;
use std::process::ExitCode;
use std::ptr;
use std::time::Instant;

use flifo_admission::{Admission, Config, Session};
use flifo_c::{
    flifo_admission_new, flifo_admission_t, flifo_config_init, flifo_config_t, flifo_enter, flifo_exit,
    flifo_session_new, flifo_session_t, flifo_status_t,
};
use flifo_record::criterion::exit_code;
use flifo_record::place::Place;
use flifo_record::statistics::Spread;
use flifo_record::{Key, Record, Row, Scale};

const ROUNDS: usize = 1000;
const CALLS: u32 = 2000;

type Function = extern "C" fn(flifo_session_t) -> flifo_status_t;

/// Nanoseconds for each call of a round.
fn round(call: impl Fn()) -> f64 {
    let begin = Instant::now();
    (0..CALLS).for_each(|_| call());
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Prints both times; returns the time that C adds.
fn compare(name: &str, rust: impl Fn(), c: impl Fn()) -> Row {
    let rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| (round(&rust), round(&c))).collect();
    let best =
        |ns: fn(&(f64, f64)) -> f64, rounds: &[(f64, f64)]| rounds.iter().map(ns).fold(f64::MAX, f64::min);
    let (best_rust, best_c) = (best(|r| r.0, &rounds), best(|r| r.1, &rounds));
    let spread = Spread::of(rounds.iter().map(|(rust, c)| c - rust)).expect("there are rounds");
    let added = spread.median;
    println!("{name:<28} Rust {best_rust:6.2} ns   C {best_c:6.2} ns   C adds (median) {added:6.2} ns");
    Key::of(name).variant("C").figure("added").spread(spread, "ns")
}

fn sessions() -> (Session, flifo_session_t) {
    let settings = Config { thread_concurrency: 4, concurrency_tickets: u32::MAX, ..Config::default() };
    let admission = Admission::new(settings).expect("a valid configuration");
    let (mut handle, mut session) = (flifo_admission_t { id: 0 }, flifo_session_t { id: 0 });
    let mut config = std::mem::MaybeUninit::<flifo_config_t>::uninit();
    // SAFETY: the pointers are writable; the first call fills the struct.
    unsafe {
        assert_eq!(
            flifo_config_init(config.as_mut_ptr(), size_of::<flifo_config_t>()),
            flifo_status_t::FLIFO_OK
        );
        let mut config = config.assume_init();
        (config.thread_concurrency, config.concurrency_tickets) = (4, u32::MAX);
        assert_eq!(flifo_admission_new(ptr::from_ref(&config), &mut handle), flifo_status_t::FLIFO_OK);
        assert_eq!(flifo_session_new(handle, &mut session), flifo_status_t::FLIFO_OK);
    }
    (admission.session(), session)
}

fn main() -> ExitCode {
    exit_code(measure())
}

fn measure() -> flifo_record::Result<()> {
    let place = Place::from_args("through-c")?;
    let mut record =
        Record::begin("through-c", "cargo bench -p flifo-admission-c -- --record", Scale::Threads);
    let (session, c_session) = sessions();
    let (enter, exit): (Function, Function) = black_box((flifo_enter, flifo_exit));
    let both = |session: &Session| {
        black_box(session.enter().is_ok());
        session.exit();
    };
    let c_both = || {
        black_box(enter(c_session));
        black_box(exit(c_session));
    };
    record.rows.push(compare("enter and exit", || both(&session), c_both));
    black_box((session.enter().is_ok(), enter(c_session)));
    record.rows.push(compare(
        "ticket",
        || _ = black_box(session.enter().is_ok()),
        || _ = black_box(enter(c_session)),
    ));

    exit(c_session);
    session.exit();
    let moved = std::thread::spawn(move || {
        let c_both = || {
            black_box(enter(c_session));
            black_box(exit(c_session));
        };
        let both = compare("enter and exit, after a move", || both(&session), c_both);
        black_box((session.enter().is_ok(), enter(c_session)));
        let ticket = || _ = black_box(session.enter().is_ok());
        [both, compare("ticket, after a move", ticket, || _ = black_box(enter(c_session)))]
    });
    record.rows.extend(moved.join().expect("the measuring thread runs through"));
    let Some(place) = place else { return Ok(()) };
    println!("{}", place.write(record)?);
    Ok(())
}
