//! Pages that were torn, cannot be read, or are written once.

use super::*;

/// Pages that were torn are put right from their copies, however many instances the pool has now.
#[test]
fn torn_pages_are_repaired_from_their_copies() {
    for instances in [1, 2, 7] {
        let (disk, worker) = crashed();
        let checkpoint = checkpoint(&disk);
        let torn: Vec<u64> =
            copies(&disk).iter().filter(|(_, lsn)| *lsn > checkpoint).map(|(page, _)| *page).collect();
        assert!(!torn.is_empty());
        torn.iter().for_each(|page| tear(&disk, *page));
        let config = EngineConfig { buffer_pool_instances: instances, ..small() };
        let db = Database::open_on(on(&disk), config).unwrap();
        check_all(&db, &worker);
    }
}

/// Pages whose copies are at hand cannot be read, until they are written.
#[test]
fn pages_that_cannot_be_read_are_repaired_from_their_copies() {
    let (disk, worker) = crashed();
    let checkpoint = checkpoint(&disk);
    for (page, _) in copies(&disk).into_iter().filter(|(_, lsn)| *lsn > checkpoint) {
        let (name, offset) = place_of_page(page);
        disk.make_unreadable(&name, offset);
    }
    // And one of the two state blocks.
    disk.make_unreadable("data0.flifo", 16 << 10);
    check_all(&open(&disk).unwrap(), &worker);
}

/// A copy of a page that was written again since, and not by way of the doublewrite area, must not be taken for the page.
#[test]
fn an_old_copy_is_never_taken_for_a_torn_page() {
    // How many copies a crash leaves, and whether their pages were written since, is up to the page cleaners.
    let mut refused = 0;
    for _ in 0..20 {
        let (disk, mut worker) = crashed();
        let once = || EngineConfig { doublewrite: false, ..small() };
        let db = Database::open_on(on(&disk), once()).unwrap();
        work(&db, &mut worker, 1500);
        db.checkpoint().unwrap();
        work(&db, &mut worker, 50);
        let cut = disk.kill();
        let copies = copies(&cut);
        for (page, _) in copies {
            let torn = cut.kill();
            tear(&torn, page);
            let all = || -> Result<()> {
                let db = Database::open_on(on(&torn), once())?;
                let tree = db.tree("t")?;
                db.check_tree(&tree)?;
                check(&db, &tree, SEED, &[worker.done], 0);
                Ok(())
            };
            match all() {
                Ok(()) => {}
                Err(Error::CorruptPage { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        if refused > 2 {
            return;
        }
    }
    panic!("only {refused} pages that a copy would not do for");
}

/// With pages that are written once, whatever a kill leaves is recovered.
#[test]
fn without_doublewrite_kills_are_survived() {
    for seed in 0..6 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let once = EngineConfig { doublewrite: false, ..small() };
        let (mut worker, db) = (Worker::new(SEED, 0), Database::create_on(on(&disk), once.clone()).unwrap());
        assert!(names(&disk, "doublewrite").is_empty());
        db.create_tree("t").unwrap();
        work(&db, &mut worker, 500 + seed * 31);
        check_all(&Database::open_on(on(&disk.kill()), once).unwrap(), &worker);
        // And it can be used again at any time.
        check_all(&open(&disk.kill()).unwrap(), &worker);
    }
}

/// The power fails while the files grow, while a load is under way, after it: the tree is empty or full.
#[test]
fn a_load_that_the_power_cut_off_leaves_all_or_nothing() {
    for seed in 0..5 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let db = create(&disk);
        let tree = db.tree("t").unwrap();
        let mut cut = None;
        let at = 700 * seed;
        let loaded = rows(3000).inspect(|(key, _)| {
            if u64::from_be_bytes(*key) == at {
                cut = Some(disk.power_cut());
            }
        });
        db.bulk_load(&tree, loaded, |_| {}).unwrap();
        let after = open(&disk.power_cut()).unwrap();
        verify(&after, &after.tree("t").unwrap(), 3000).unwrap();
        let during = open(&cut.unwrap()).unwrap();
        let tree = during.tree("t").unwrap();
        verify(&during, &tree, 0).unwrap();
        during.bulk_load(&tree, rows(3000), |_| {}).unwrap();
        verify(&during, &tree, 3000).unwrap();
    }
}
