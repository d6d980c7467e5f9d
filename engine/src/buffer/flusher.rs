//! The task around the controller of adaptive flushing: samples the pool and the log, and publishes the plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::BufferPool;
use super::adaptive::{Controller, Limits, Sample, TICK_MS};
use super::ages::Ages;
use crate::background::{Task, Wake};

/// Publishes a plan at every tick. Cleaners carry it out.
pub(super) struct Flusher {
    pool: Arc<BufferPool>,
    controller: Controller,
    begun: Instant,
}

impl Flusher {
    pub(super) fn new(pool: &Arc<BufferPool>, now: Instant) -> Self {
        let config = pool.flushing.config;
        let limits = Limits {
            capacity_bytes: pool.log.capacity_bytes(),
            io_capacity: config.io_capacity,
            io_capacity_max: config.io_capacity_max,
            cleaners: pool.cleaners() as u32,
        };
        Flusher { pool: Arc::clone(pool), controller: Controller::new(limits), begun: now }
    }
}

impl Task for Flusher {
    fn step(&mut self, now: Instant) -> Wake {
        let pool = &*self.pool;
        // While the log is replayed no checkpoint can be made, and the pages are changed again and again.
        if !pool.is_replaying() && !pool.is_failed() {
            let stats = pool.flush_stats();
            // In this order, so that no age is negative: the checkpoint trails the oldest change, which trails the end.
            let checkpoint = pool.log.checkpoint();
            let oldest = pool.oldest_change();
            let sample = Sample {
                now_ns: now.saturating_duration_since(self.begun).as_nanos() as u64,
                next: pool.log.next(),
                oldest,
                checkpoint,
                begun: pool.flushing.begun(),
                batches: stats.batches,
                batches_ns: stats.batches_ns,
            };
            let mut ages = Ages::since(oldest, pool.log.capacity_bytes());
            pool.instances.iter().for_each(|instance| ages.add(instance.flush_list.ages()));
            let plan = self.controller.step(&sample, &ages);
            pool.flushing.publish(&plan);
            if plan.quota > 0 && oldest < plan.target {
                pool.wake_cleaners(plan.quota as u64);
            }
        }
        Wake::At(now + Duration::from_millis(TICK_MS))
    }
}
