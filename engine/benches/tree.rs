//! The tree in memory, one thread and two: point gets, a range of 1000 rows, bulk load on a real disk.
//!
//! `cargo bench -p flifo-engine --bench tree`

use std::hint::black_box;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flifo_engine::buffer::{BufferPool, FlushConfig, PoolConfig};
use flifo_engine::disk::{Disk, FileDisk, MemoryDisk, Tablespace};
use flifo_engine::redo::Log;
use flifo_engine::space::PageAllocator;
use flifo_engine::tree::Tree;
use flifo_engine::{Waiter, Waits};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

const ROWS: u32 = 2_000_000;
const VALUE_BYTES: usize = 184;

fn tree_on(disk: &dyn Disk, pool_bytes: u64) -> (Arc<BufferPool>, Tree) {
    let space = Arc::new(Tablespace::create(disk, 4, 16384).expect("a tablespace"));
    let log = Log::create(disk, &space, 128 << 20, 16 << 20).expect("a log");
    let config =
        PoolConfig { bytes: pool_bytes, instances: 8, doublewrite: true, flush: FlushConfig::default() };
    let pool = BufferPool::new(disk, log, config, Waits::new()).expect("a pool");
    pool.start_background().expect("threads");
    let waiter = Waiter::background();
    let alloc = PageAllocator::create(&pool, &waiter).expect("an allocator");
    let tree = Tree::create(&pool, &alloc, &waiter).expect("a tree");
    (pool, tree)
}

fn load(tree: &Tree) {
    let value = [7; VALUE_BYTES];
    let rows = (0..ROWS).map(|id| (id.to_be_bytes(), value));
    tree.bulk_load(&Waiter::background(), rows, 15.0 / 16.0, |_| {}).expect("a load");
}

struct Random(SplitMix64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(SplitMix64::seed_from_u64(seed))
    }

    fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u32
    }
}

/// Time of `gets` random gets.
fn random_gets(tree: &Tree, seed: u64, gets: u64) -> Duration {
    let (waiter, mut random, mut value) = (Waiter::background(), Random::new(seed), Vec::new());
    let begun = Instant::now();
    for _ in 0..gets {
        let found = tree.get(&waiter, &random.below(ROWS).to_be_bytes(), &mut value);
        assert!(found.expect("a get"));
        black_box(&value);
    }
    begun.elapsed()
}

fn in_memory(c: &mut Criterion) {
    let (pool, tree) = tree_on(&MemoryDisk::default(), 1 << 30);
    load(&tree);
    let mut group = c.benchmark_group("2M rows of 188 bytes in memory");
    group.throughput(Throughput::Elements(1));
    group.bench_function("get, random", |b| b.iter_custom(|gets| random_gets(&tree, 1, gets)));
    group.bench_function("get, random, two threads, each", |b| {
        b.iter_custom(|gets| {
            std::thread::scope(|scope| {
                let threads = [2, 3].map(|seed| {
                    scope.spawn({
                        let tree = &tree;
                        move || random_gets(tree, seed, gets)
                    })
                });
                threads.map(|thread| thread.join().expect("no panic")).into_iter().max().expect("two")
            })
        })
    });
    let (waiter, mut random) = (Waiter::background(), Random::new(4));
    group.throughput(Throughput::Elements(1000));
    group.bench_function("range of 1000 rows, summed", |b| {
        b.iter(|| {
            let from = random.below(ROWS - 1000);
            let (from, to) = (from.to_be_bytes(), (from + 1000).to_be_bytes());
            let mut sum = 0_u64;
            tree.scan(&waiter, Bound::Included(&from), Bound::Excluded(&to), |key, value| {
                sum += u64::from(key[3]) + u64::from(value[100]);
                ControlFlow::Continue(())
            })
            .expect("a scan");
            sum
        })
    });
    group.finish();
    pool.stop_background();
}

/// Bulk load of all rows and flush, into a pool larger and one smaller than the data.
fn bulk_load(c: &mut Criterion) {
    let mut group = c.benchmark_group("bulk load of 2M rows of 188 bytes, synced");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(ROWS)));
    for (name, pool_bytes) in [("pool of 1 GiB", 1 << 30), ("pool of 40 MiB", 40 << 20)] {
        group.bench_function(name, |b| {
            b.iter_custom(|loads| (0..loads).map(|_| load_on_disk(pool_bytes)).sum())
        });
    }
    group.finish();
}

fn load_on_disk(pool_bytes: u64) -> Duration {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = FileDisk::create(directory.path().join("data"), true).expect("a disk");
    let (pool, tree) = tree_on(&disk, pool_bytes);
    let begun = Instant::now();
    load(&tree);
    pool.flush_all(&Waiter::background()).expect("a flush");
    let time = begun.elapsed();
    pool.stop_background();
    time
}

criterion_group!(benches, in_memory, bulk_load);
criterion_main!(benches);
