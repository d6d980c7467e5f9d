//! A sweep of a server from its first line to its last.

use std::path::Path;

use super::args::SweepArgs;
use super::plan::{Plan, Step};
use super::server_cell;
use crate::commands::common::{Ended, and_afterwards, command_line};
use crate::commands::steps::{Keep, Ran, Subject, keep_as_requested, measure_and_keep};
use crate::measure::sampler;
use crate::measure::server::address::Address;
use crate::measure::server::admin::{self, Admin};
use crate::measure::server::clients::{self, Clients};
use crate::measure::server::endpoint::Endpoint;
use crate::measure::server::statement::Sql;
use crate::measure::server::table::{self, Wanted};
use crate::measure::server::{Protocol, connect, script};
use crate::measure::workload::Workload;
use crate::results::{CellKey, Results, Settings};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::limits;
use crate::support::progress::Progress;

/// Default rows of a new table.
const TABLE_SIZE: u32 = 1_000_000;
/// Descriptors that a server needs in addition to its connections, for tables and logs.
const SERVER_DESCRIPTORS_SPARE: u64 = 50;

/// A server that is measured.
struct Live<'a> {
    admin: Admin,
    endpoint: &'a Endpoint,
    plan: &'a Plan,
    protocol: Protocol,
    threads: usize,
    rows: u32,
    seed: u64,
    open: Option<(u32, Clients)>,
    /// Rounds that failed.
    failed: usize,
}

/// `flifo sweep --target`.
pub(crate) fn sweep(args: &SweepArgs, address: &Address, plan: Plan, start: &Start) -> Result<Ended, Error> {
    run(args, address, plan, start, command_line(), &mut |results, measured| {
        keep_as_requested(args.outputs(), (&args.record, args.record_name()), &results, measured)
    })
}

/// The sweep, whose results `keep` takes; `command_line` is what repeats it.
pub(crate) fn run(
    args: &SweepArgs,
    address: &Address,
    plan: Plan,
    start: &Start,
    command_line: String,
    keep: &mut Keep<'_>,
) -> Result<Ended, Error> {
    let threads = args.client_threads.map_or_else(clients::threads_default, |n| n as usize);
    let admin_address = args.admin_target.as_ref().unwrap_or(address);
    check_places([address, admin_address], args.allow_remote)?;
    args.tls.check(&[&address.place, &admin_address.place])?;
    let endpoint = Endpoint::new(address, &args.tls)?;
    let admin_endpoint = Endpoint::new(admin_address, &args.tls)?;
    limits::descriptors(clients::descriptors(plan.threads_max(), threads), limits::FEWER_THREADS)?;

    let progress = Progress::new();
    let mut admin = Admin::open(&admin_endpoint)?;
    let mut session = connect::open(&endpoint)?;
    if args.admin_target.is_some() && !admin.is_server_of(&mut session)? {
        return Err(Error::Usage("--target and --admin-target are two servers; name one".into()));
    }
    admin.check(&plan.settings)?;
    let protocol = args.protocol.unwrap_or_default();
    check_room(&mut admin, (plan.threads_max(), "--threads"), prepared(&plan, protocol).len())?;
    if plan.settings.iter().any(|setting| setting.limiter.is_flifo())
        && admin::bypasses_admission(&mut session).map_err(|error| connect::explain(&endpoint, error))?
    {
        progress.note(&format!(
            "user '{}' has CONNECTION ADMIN, SUPER or REPLICATION SLAVE, so its statements bypass the plugin; use an ordinary user for the load (and this one for --admin-target)",
            address.user
        ));
    }
    let cipher = session.cipher().map_err(|error| connect::explain(&endpoint, error))?;
    connect::set_own_mode(&mut session, &endpoint)?;
    session.take_time();
    let requested = Wanted { rows: args.table_size, rows_default: TABLE_SIZE, seed: args.seed };
    let rows = table::prepare(&mut session, &endpoint, &requested, &progress)?;
    session.say_goodbye();
    drop(session);
    let plan = plan.fitted(rows, args.range_size.is_some())?;

    let machine = sampler::machine(Path::new(admin.facts.variable("datadir").unwrap_or(".")));
    let settings = Settings {
        server_address: address.to_string(),
        server_tls: cipher,
        ..settings(&admin, &plan, (rows, args.seed), threads)
    };
    let results = Results::new(machine, settings, command_line, start.utc());
    let seed = args.seed;
    let mut live = Live {
        admin,
        endpoint: &endpoint,
        plan: &plan,
        protocol,
        threads,
        rows,
        seed,
        open: None,
        failed: 0,
    };
    let (measured, kept) = measure_and_keep(keep, &plan, &mut live, &progress, results, start);
    drop(live.open.take());
    let restored = live.admin.restore();
    let failed = live.failed;
    let ended = and_afterwards(measured, kept, &progress);
    let ended = and_afterwards(ended, restored, &progress)?;
    match failed {
        failed if failed > 0 && ended == Ended::Done => Err(Error::Target(format!(
            "{failed} of {} rounds failed, see above; the others were measured",
            plan.steps_total()
        ))),
        _ => Ok(ended),
    }
}

/// A sweep takes all that a server has: only this machine's, unless the user says so.
pub(crate) fn check_places(addresses: [&Address; 2], allow_remote: bool) -> Result<(), Error> {
    match addresses.into_iter().find(|address| !address.place.is_local()) {
        Some(address) if !allow_remote => Err(Error::Usage(format!(
            "{address} is not on this machine, and a sweep takes all that a server has: if that server is yours to load, say --allow-remote"
        ))),
        _ => Ok(()),
    }
}

/// What the run takes of the server, asked before anything is touched.
pub(crate) fn check_room(
    admin: &mut Admin,
    (connections, option): (u32, &str),
    statements: usize,
) -> Result<(), Error> {
    let requested = u64::from(connections);
    // Includes the session of administration and the one that prepares the table; the latter will be closed.
    let open = admin.read(&[])?.connections().unwrap_or(2).saturating_sub(1);
    let facts = &admin.facts;
    if let Some(most) = facts.number("max_connections")
        && open + requested > most
    {
        return Err(Error::Limits(format!(
            "the server takes {most} connections, {open} are open and {requested} more are needed: SET GLOBAL max_connections = {}, or use fewer {option}",
            open + requested
        )));
    }
    if let Some(most) = facts.number("open_files_limit")
        && open + requested + SERVER_DESCRIPTORS_SPARE > most
    {
        return Err(Error::Limits(format!(
            "the server may open {most} files and {requested} connections are needed: start it with open_files_limit = {} (or LimitNOFILE of its unit), or use fewer {option}",
            open + requested + SERVER_DESCRIPTORS_SPARE
        )));
    }
    let statements = requested * statements as u64;
    match facts.number("max_prepared_stmt_count") {
        Some(most) if statements > most => Err(Error::Limits(format!(
            "the server keeps {most} prepared statements and {statements} are needed: SET GLOBAL max_prepared_stmt_count = {statements}, use --protocol text, fewer {option} or fewer workloads"
        ))),
        _ => Ok(()),
    }
}

/// What every connection prepares: the statements of all workloads of the run.
fn prepared(plan: &Plan, protocol: Protocol) -> Vec<Sql> {
    let mut requested = Vec::new();
    if protocol == Protocol::Prepared {
        for sql in plan.workloads.iter().flat_map(|workload| script::statements(*workload)) {
            if !requested.contains(sql) {
                requested.push(*sql);
            }
        }
    }
    requested
}

fn settings(admin: &Admin, plan: &Plan, (rows, seed): (u32, u64), threads: usize) -> Settings {
    let facts = &admin.facts;
    let number = |name: &str| facts.number(name).unwrap_or(0);
    Settings {
        rows: rows.into(),
        range_size: plan.range_size.into(),
        read_write_range_size: plan.range_of(Workload::ReadWrite).into(),
        seed,
        rounds: plan.rounds,
        round_s: plan.time.as_secs_f64(),
        warmup_s: plan.settle.as_secs_f64(),
        buffer_pool_bytes: number("innodb_buffer_pool_size"),
        buffer_pool_instances: number("innodb_buffer_pool_instances") as u32,
        page_size_bytes: number("innodb_page_size") as u32,
        direct_io: facts.variable("innodb_flush_method").is_some_and(|method| method.starts_with("O_DIRECT")),
        server_version: facts.version.clone(),
        server_variables: facts.variables.clone(),
        client_threads: threads as u32,
        ..Settings::default()
    }
}

impl Subject<Step> for Live<'_> {
    fn key(&self, step: &Step) -> CellKey {
        CellKey {
            target: "server".into(),
            workload: step.workload.to_string(),
            front: self.protocol.name().into(),
            policy: step.setting.policy_name(),
            concurrency: step.setting.concurrency,
            // The plugin has no such setting.
            tickets: 0,
            threads: step.threads,
            leave_on_read: true,
            ..CellKey::default()
        }
    }

    fn run(&mut self, step: &Step) -> Result<Ran, Error> {
        match self.measure(step) {
            Ok(Some(round)) => Ok(Ran::Measured(round)),
            Ok(None) | Err(Error::Interrupted) => Ok(Ran::Interrupted),
            Err(Error::Cell(reason)) => {
                // The other connections may be in any state.
                self.open = None;
                self.failed += 1;
                Ok(Ran::Failed(reason))
            }
            Err(error) => Err(error),
        }
    }
}

impl Live<'_> {
    fn measure(&mut self, step: &Step) -> Result<Option<Box<crate::results::Round>>, Error> {
        let clients = match &mut self.open {
            Some((threads, clients)) if *threads == step.threads => clients,
            _ => {
                // The old connections first: room was checked for the most at a time.
                drop(self.open.take());
                let requested = prepared(self.plan, self.protocol);
                let clients = Clients::open(self.endpoint, step.threads, &requested, self.threads)?;
                &mut self.open.insert((step.threads, clients)).1
            }
        };
        let round = server_cell::run(&mut self.admin, clients, (self.plan, step), (self.rows, self.seed))?;
        Ok(round.map(Box::new))
    }
}
