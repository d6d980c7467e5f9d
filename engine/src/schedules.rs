//! Random and adversarial (PCT) schedules of a model, for the modules that have one (shuttle).

use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// FLIFO_MODEL_ITERATIONS sets the number of schedules.
fn iterations() -> usize {
    std::env::var("FLIFO_MODEL_ITERATIONS").map_or(2000, |n| n.parse().expect("a number of schedules"))
}

fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
    Runner::new(scheduler, shuttle::Config::new()).run(model);
}

/// The model in random schedules.
pub(crate) fn random(model: impl Fn() + Send + Sync + 'static) {
    run(RandomScheduler::new(iterations()), model);
}

/// The model in about as many adversarial ones.
pub(crate) fn adversarial(model: impl Fn() + Send + Sync + Copy + 'static) {
    [2, 3, 5].into_iter().for_each(|depth| run(PctScheduler::new(depth, iterations() / 3), model));
}
