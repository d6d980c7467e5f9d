//! Rows that are put where they were seen, and behind the last one.

use super::super::put;
use super::*;

/// What happens to a tree of which places and an end are remembered.
#[derive(Debug, Clone)]
enum Step {
    /// Looks at a row, and remembers where it is.
    Look(Vec<u8>),
    /// Puts the row that was read this number of steps ago, wherever it is now.
    Put(usize, Vec<u8>),
    /// Adds rows behind all others.
    Append(u8),
    /// Anything else.
    Other(Op),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => key().prop_map(Step::Look),
        3 => (0..4_usize, value()).prop_map(|(ago, value)| Step::Put(ago, value)),
        2 => (1..30_u8).prop_map(Step::Append),
        3 => op().prop_map(Step::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// However the tree has changed in between.
    #[test]
    fn a_row_is_put_where_it_belongs_and_not_where_it_was(steps in proptest::collection::vec(step(), 1..200)) {
        let f = fixture(32, 2);
        let (mut model, mut looked, mut end, mut appended) = (BTreeMap::new(), Vec::new(), None, 0_u32);
        let mut out = Vec::new();
        for step in steps {
            match step {
                Step::Look(key) => {
                    let (found, place) = f.tree.get_to_put(&f.waiter, &key, &mut out).unwrap();
                    assert_eq!(found.then_some(&out), model.get(&key));
                    looked.push((key, place));
                }
                Step::Put(ago, value) => {
                    let Some((key, place)) = looked.iter().nth_back(ago) else { continue };
                    let now = model.get(key).map(Vec::as_slice);
                    let agrees = |seen: Option<&[u8]>| {
                        assert_eq!(seen, now);
                        true
                    };
                    prop_assert!(f.tree.put_at(&f.waiter, (key, &value), Some(*place), agrees).unwrap());
                    model.insert(key.clone(), value);
                }
                Step::Append(rows) => for _ in 0..rows {
                    // Behind all other keys there are.
                    let key = [&[0xff][..], &appended.to_be_bytes()].concat();
                    let (added, now) = f.tree.insert_last(&f.waiter, &key, &[7; 40], end).unwrap();
                    prop_assert!(added);
                    (end, appended) = (now, appended + 1);
                    model.insert(key, vec![7; 40]);
                },
                Step::Other(op) => apply(&f, &mut model, op),
            }
        }
        f.check_against(&model);
    }
}

fn is_known(f: &Fixture, end: Option<put::End>) -> bool {
    end.is_some_and(|end| end.is_known(&f.tree))
}

#[test]
fn the_end_is_known_until_somebody_changes_the_leaf() {
    let f = fixture(32, 2);
    let append = |n: u32, end| f.tree.insert_last(&f.waiter, &n.to_be_bytes(), b"v", end).unwrap();
    let (mut end, mut known) = (None, 0);
    for n in 0..2000 {
        known += u32::from(is_known(&f, end));
        let (added, now) = append(n, end);
        assert!(added);
        end = now;
    }
    assert!(known > 1950, "{known} of 2000");
    f.tree.update(&f.waiter, &1999_u32.to_be_bytes(), b"w").unwrap();
    assert!(!is_known(&f, end));
    assert!(!append(1999, end).0, "it is there");
    assert!(append(2000, end).0);
}

/// Each thread writes at the place it has just read, while others change, split and merge it.
#[test]
fn threads_that_put_what_they_have_seen_lose_nothing() {
    const THREADS: u64 = 6;
    const TURNS: u64 = 3000;
    let f = fixture(64, 2);
    let tree = &f.tree;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let waiter = Waiter::background();
                let (mut random, mut out) = (thread + 1, Vec::new());
                for _ in 0..TURNS {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let key = (random >> 60).to_be_bytes();
                    // One more in a counter that is as long as it is high, so that leaves are split.
                    loop {
                        let (found, place) = tree.get_to_put(&waiter, &key, &mut out).unwrap();
                        let seen = found.then(|| out.clone());
                        let more = vec![1; out.len() % 900 + 1];
                        if tree
                            .put_at(&waiter, (&key, &more), Some(place), |now| now == seen.as_deref())
                            .unwrap()
                        {
                            break;
                        }
                    }
                }
            });
        }
    });
    f.tree.check(&f.waiter).unwrap();
    // Each counter has come round as often as it was filled: lengths alone say how many turns are missing.
    let total: u64 =
        f.rows(Bound::Unbounded, Bound::Unbounded).iter().map(|(_, value)| value.len() as u64).sum();
    assert_eq!(total % 900, THREADS * TURNS % 900);
}
