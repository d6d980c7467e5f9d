//! A load on a live server: its settings, its counters, a round.

use std::path::Path;

use super::args::LoadArgs;
use super::plan::{Plan, Step};
use crate::commands::sweep::server_cell::{self, Readings, watch};
use crate::commands::sweep::server_run::{check_places, check_room};
use crate::measure::closed_loop::Counts;
use crate::measure::frontend::{STACK_BYTES, Window};
use crate::measure::sampler;
use crate::measure::server::admin::{self, Admin};
use crate::measure::server::connect::{self, explain};
use crate::measure::server::endpoint::Endpoint;
use crate::measure::server::{Address, Protocol};
use crate::results::{CellKey, Machine, Round, Settings};
use crate::support::error::Error;
use crate::support::progress::Progress;
use crate::support::{interrupt, limits};

const FEWER: &str = "fewer --users";
/// Time from the last reading of the counters to the window's end, when users begin to stop.
const LAST_READING_NS: u64 = 50_000_000;

/// A server that is measured.
pub(crate) struct Live {
    pub(crate) admin: Admin,
    pub(crate) endpoint: Endpoint,
    pub(crate) protocol: Protocol,
    cipher: String,
}

impl Live {
    /// Connects, and checks that the server can do what the plan needs; `statements` are those of a connection.
    pub(crate) fn open(
        args: &LoadArgs,
        address: &Address,
        (plan, statements): (&Plan, usize),
        progress: &Progress,
    ) -> Result<Self, Error> {
        let admin_address = args.admin_target.as_ref().unwrap_or(address);
        check_places([address, admin_address], args.allow_remote)?;
        args.tls.check(&[&address.place, &admin_address.place])?;
        let endpoint = Endpoint::new(address, &args.tls)?;
        let users = u64::from(plan.users_max());
        limits::descriptors(users, FEWER)?;
        limits::threads(users, FEWER)?;
        limits::stacks(users, STACK_BYTES as u64, FEWER)?;
        let mut admin = Admin::open(&Endpoint::new(admin_address, &args.tls)?)?;
        let mut session = connect::open(&endpoint)?;
        if args.admin_target.is_some() && !admin.is_server_of(&mut session)? {
            return Err(Error::Usage("--target and --admin-target are two servers; name one".into()));
        }
        admin.check(&plan.settings)?;
        let protocol = args.protocol.unwrap_or_default();
        let statements = if protocol == Protocol::Prepared { statements } else { 0 };
        check_room(&mut admin, (plan.users_max(), "--users"), statements)?;
        if plan.settings.iter().any(|setting| setting.limiter.is_flifo())
            && admin::bypasses_admission(&mut session).map_err(|error| explain(&endpoint, error))?
        {
            progress.note(&format!(
                "user '{}' has CONNECTION ADMIN, SUPER or REPLICATION SLAVE, so its statements bypass the plugin; use an ordinary user for the load (and this one for --admin-target)",
                address.user
            ));
        }
        let cipher = session.cipher().map_err(|error| explain(&endpoint, error))?;
        session.say_goodbye();
        Ok(Live { admin, endpoint, protocol, cipher })
    }

    /// The machine with the server's data, if it is this one.
    pub(crate) fn machine(&self) -> Machine {
        sampler::machine(Path::new(self.admin.facts.variable("datadir").unwrap_or(".")))
    }

    /// The settings of a run.
    pub(crate) fn settings(&self, args: &LoadArgs, plan: &Plan) -> Settings {
        let facts = &self.admin.facts;
        let number = |name: &str| facts.number(name).unwrap_or(0);
        let is_direct = |method: &str| method.starts_with("O_DIRECT");
        Settings {
            seed: args.seed,
            rounds: plan.rounds,
            round_s: plan.time.as_secs_f64(),
            warmup_s: plan.settle.as_secs_f64(),
            buffer_pool_bytes: number("innodb_buffer_pool_size"),
            buffer_pool_instances: number("innodb_buffer_pool_instances") as u32,
            page_size_bytes: number("innodb_page_size") as u32,
            direct_io: facts.variable("innodb_flush_method").is_some_and(is_direct),
            server_version: facts.version.clone(),
            server_variables: facts.variables.clone(),
            server_address: self.endpoint.address.to_string(),
            server_tls: self.cipher.clone(),
            client_threads: plan.users_max(),
            ..Settings::default()
        }
    }

    /// What names a step's cell.
    pub(crate) fn key(&self, plan: &Plan, step: &Step) -> CellKey {
        CellKey {
            target: "server".into(),
            workload: plan.workload.into(),
            front: self.protocol.name().into(),
            policy: step.setting.policy_name(),
            concurrency: step.setting.concurrency,
            // The plugin has no such setting.
            tickets: 0,
            threads: step.users,
            leave_on_read: true,
            ..CellKey::default()
        }
    }

    /// Reads the counters at both ends of a window, and waits for its end; `None` after Ctrl-C, with the window cut. The
    /// users' own errors say more than one of the readings.
    pub(crate) fn watch(&mut self, window: &Window, tids: &[u32]) -> Result<Option<Readings>, Error> {
        let last_ns = || window.end_ns().saturating_sub(LAST_READING_NS);
        let readings = watch(&mut self.admin, tids, window, last_ns);
        let is_interrupted = interrupt::sleep_until(|| window.end_ns());
        if is_interrupted || readings.is_err() {
            window.cut();
        }
        if is_interrupted { Ok(None) } else { readings.map(Some) }
    }

    /// The figures of a round.
    pub(crate) fn round(&self, number: u32, window: &Window, counts: &Counts, readings: Readings) -> Round {
        server_cell::round(number, window, (&counts.all, counts.all.retries.figures()), readings)
    }
}
