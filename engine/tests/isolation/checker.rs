//! Looks for anomalies in a list-append history, after Elle (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies
//! from Experimental Observations", VLDB 2020) with the names of Adya's thesis (1999).
//!
//! A version of a row is the list it has, so each read tells which version it saw, and each append which version it
//! replaced. From these follow the dependencies between committed transactions:
//!
//! - ww: one replaced the version that the other wrote;
//! - wr: one read the version that the other wrote;
//! - rw: one read the version that the other replaced.
//!
//! Histories of an isolation level may have cycles of some kinds of edges and not of others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef as _;

use super::history::{Element, History, Key, List, Op};

/// What should not be, at one level or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Anomaly {
    /// A list that nobody wrote.
    Garbage,
    /// A transaction does not see what it wrote itself.
    Internal,
    /// A cycle of ww.
    G0,
    /// Something was read that was rolled back.
    G1a,
    /// Something was read that its writer replaced itself.
    G1b,
    /// A cycle of ww and wr.
    G1c,
    /// A read that is older than what was committed when its transaction began.
    StaleRead,
    /// Two transactions replaced the same version: what one wrote is lost.
    LostUpdate,
    /// A row was read twice, and another transaction's commit came between.
    NonRepeatable,
    /// A cycle with one rw (read skew, and a lost update seen from its reads).
    GSingle,
    /// A cycle with rw edges, no two of them next to each other.
    GNonadjacent,
    /// A cycle with rw edges that is none of the above (write skew).
    G2Item,
}

/// What was found, with an example of each.
pub(crate) type Found = BTreeMap<Anomaly, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Edge {
    Ww,
    Wr,
    Rw,
}

/// Index of a transaction in the history; `None` wrote what was there before.
type Writer = Option<usize>;

struct Checker<'h> {
    history: &'h History,
    /// The transaction that wrote an element, and the list that ends with it.
    elements: HashMap<(Key, Element), (usize, List)>,
    /// Elements that must not be seen.
    discarded: HashSet<(Key, Element)>,
    /// Lists that a committed transaction left, and who.
    installed: HashMap<(Key, List), Writer>,
    /// The transactions that replaced a list.
    replaced_by: HashMap<(Key, List), Vec<usize>>,
    found: Found,
}

/// Looks for all anomalies.
pub(crate) fn check(history: &History) -> Found {
    let mut checker = Checker::new(history);
    checker.lost_updates();
    checker.reads();
    checker.stale_reads();
    checker.cycles();
    checker.found
}

impl<'h> Checker<'h> {
    fn new(history: &'h History) -> Self {
        let mut checker = Checker {
            history,
            elements: HashMap::new(),
            discarded: history.txns.iter().flat_map(|txn| txn.discarded()).collect(),
            installed: HashMap::new(),
            replaced_by: HashMap::new(),
            found: Found::new(),
        };
        let keys = history.txns.iter().flat_map(|txn| &txn.ops).map(key_of);
        for key in keys.chain(history.initial.keys().copied()) {
            checker.installed.insert((key, history.initial(key)), None);
        }
        for (index, txn) in history.txns.iter().enumerate() {
            let (mut first, mut last) = (BTreeMap::new(), BTreeMap::new());
            for (key, base, after) in txn.written() {
                checker
                    .elements
                    .insert((key, *after.last().expect("it has an element")), (index, after.clone()));
                first.entry(key).or_insert_with(|| base.clone());
                last.insert(key, after);
            }
            if txn.committed {
                first.into_iter().for_each(|base| checker.replaced_by.entry(base).or_default().push(index));
                checker.installed.extend(last.into_iter().map(|list| (list, Some(index))));
            }
        }
        checker
    }

    fn find(&mut self, anomaly: Anomaly, what: impl FnOnce() -> String) {
        self.found.entry(anomaly).or_insert_with(what);
    }

    fn lost_updates(&mut self) {
        let lost: Vec<_> = self.replaced_by.iter().filter(|(_, by)| by.len() > 1).collect();
        if let Some((version, by)) = lost.first() {
            let what = format!("transactions {by:?} replaced the same version {version:?}");
            self.find(Anomaly::LostUpdate, || what);
        }
    }

    /// What each transaction saw, by itself.
    fn reads(&mut self) {
        for (index, txn) in self.history.txns.iter().enumerate() {
            let (mut own, mut seen) = (HashMap::<Key, List>::new(), HashMap::<Key, List>::new());
            for op in &txn.ops {
                let (Op::Read(key, list) | Op::Append(key, list, _) | Op::Undone(key, list, _)) = op;
                let what = || format!("transaction {index} ({txn:?}): {op:?}");
                match own.get(key) {
                    Some(own) if own != list => self.find(Anomaly::Internal, what),
                    Some(_) => {}
                    None => {
                        if seen.get(key).is_some_and(|seen| seen != list) {
                            self.find(Anomaly::NonRepeatable, what);
                        }
                        seen.insert(*key, list.clone());
                        if let Some(anomaly) = self.anomaly_of(*key, list) {
                            self.find(anomaly, what);
                        }
                    }
                }
                if let Op::Append(key, base, element) = op {
                    own.insert(*key, [&base[..], &[*element]].concat());
                }
            }
        }
    }

    /// What is wrong with a version that another transaction has read.
    fn anomaly_of(&self, key: Key, list: &List) -> Option<Anomaly> {
        if list.iter().any(|&element| self.discarded.contains(&(key, element))) {
            return Some(Anomaly::G1a);
        }
        if self.installed.contains_key(&(key, list.clone())) {
            return None;
        }
        let last = list.last().and_then(|&last| self.elements.get(&(key, last)));
        match last {
            Some((_, written)) if written == list => Some(Anomaly::G1b),
            _ => Some(Anomaly::Garbage),
        }
    }

    /// Reads of other transactions' versions, by committed transactions: reader, key, version.
    fn external_reads(&self) -> Vec<(usize, Key, List)> {
        let mut reads = Vec::new();
        for (index, txn) in self.history.txns.iter().enumerate().filter(|(_, txn)| txn.committed) {
            let mut written = BTreeSet::new();
            for op in &txn.ops {
                let (Op::Read(key, list) | Op::Append(key, list, _) | Op::Undone(key, list, _)) = op;
                if !written.contains(key) {
                    reads.push((index, *key, list.clone()));
                }
                if matches!(op, Op::Append(..)) {
                    written.insert(*key);
                }
            }
        }
        reads
    }

    /// A version that was replaced by a transaction whose commit had returned when the reader began.
    fn stale_reads(&mut self) {
        for (reader, key, list) in self.external_reads() {
            let begun = self.history.txns[reader].begun;
            let mut version = list.clone();
            // Where versions are not what their writers saw, they may go round in a circle.
            for _ in 0..self.history.txns.len() {
                // Once an update is lost, the order of the two is unknown.
                let by = self.replaced_by.get(&(key, version.clone())).map(Vec::as_slice);
                let Some(&[by]) = by else { break };
                let writer = &self.history.txns[by];
                if by != reader && writer.ended < begun {
                    let what =
                        format!("transaction {reader} read {list:?} of {key}, and {by} had replaced it");
                    self.find(Anomaly::StaleRead, || what);
                }
                let after = writer.written().filter(|(of, ..)| *of == key).last();
                version = after.expect("it has replaced a version").2;
            }
        }
    }

    fn edges(&self) -> BTreeSet<(usize, usize, Edge)> {
        let mut edges = BTreeSet::new();
        let mut add = |from: usize, to: usize, edge| {
            if from != to {
                edges.insert((from, to, edge));
            }
        };
        for ((key, list), by) in &self.replaced_by {
            if let Some(&Some(writer)) = self.installed.get(&(*key, list.clone())) {
                by.iter().for_each(|&by| add(writer, by, Edge::Ww));
            }
        }
        for (reader, key, list) in self.external_reads() {
            if let Some(&Some(writer)) = self.installed.get(&(key, list.clone())) {
                add(writer, reader, Edge::Wr);
            }
            for &by in self.replaced_by.get(&(key, list)).into_iter().flatten() {
                add(reader, by, Edge::Rw);
            }
        }
        edges
    }

    fn cycles(&mut self) {
        let edges = self.edges();
        let of = |kinds: &[Edge]| Graph::new(self.history.txns.len(), &edges, kinds);
        let (ww, wwr, all) =
            (of(&[Edge::Ww]), of(&[Edge::Ww, Edge::Wr]), of(&[Edge::Ww, Edge::Wr, Edge::Rw]));
        let mut found = Vec::new();
        found.extend(ww.cyclic(Edge::Ww).map(|cycle| (Anomaly::G0, cycle)));
        found.extend(wwr.cyclic(Edge::Wr).map(|cycle| (Anomaly::G1c, cycle)));
        let component = all.components();
        for &(from, to, _) in
            edges.iter().filter(|(from, to, edge)| *edge == Edge::Rw && component[from] == component[to])
        {
            let anomaly = if wwr.reaches(to, from) {
                Anomaly::GSingle
            } else if nonadjacent(&all, from, to) {
                Anomaly::GNonadjacent
            } else {
                Anomaly::G2Item
            };
            found.push((anomaly, format!("a cycle with {from} -rw-> {to}")));
        }
        for (anomaly, what) in found {
            self.find(anomaly, || what);
        }
    }
}

fn key_of(op: &Op) -> Key {
    let (Op::Read(key, _) | Op::Append(key, ..) | Op::Undone(key, ..)) = op;
    *key
}

/// The dependencies of some kinds.
struct Graph(DiGraph<(), Edge>);

impl Graph {
    fn new(nodes: usize, edges: &BTreeSet<(usize, usize, Edge)>, kinds: &[Edge]) -> Self {
        let mut graph = DiGraph::with_capacity(nodes, edges.len());
        (0..nodes).for_each(|_| _ = graph.add_node(()));
        for &(from, to, edge) in edges.iter().filter(|(.., edge)| kinds.contains(edge)) {
            graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), edge);
        }
        Graph(graph)
    }

    /// The strongly connected component of each node.
    fn components(&self) -> HashMap<usize, usize> {
        let components = tarjan_scc(&self.0).into_iter().enumerate();
        components
            .flat_map(|(number, nodes)| nodes.into_iter().map(move |node| (node.index(), number)))
            .collect()
    }

    /// A cycle with an edge of that kind.
    fn cyclic(&self, kind: Edge) -> Option<String> {
        let component = self.components();
        self.0.edge_references().filter(|edge| *edge.weight() == kind).find_map(|edge| {
            let (from, to) = (edge.source().index(), edge.target().index());
            (component[&from] == component[&to]).then(|| format!("a cycle with {from} -{kind:?}-> {to}"))
        })
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        petgraph::algo::has_path_connecting(&self.0, NodeIndex::new(from), NodeIndex::new(to), None)
    }
}

/// Whether the rw edge lies on a cycle in which no rw edge follows another: a search over nodes and how they were reached.
fn nonadjacent(all: &Graph, from: usize, to: usize) -> bool {
    let (mut seen, mut to_do) = (HashSet::from([(to, true)]), vec![(to, true)]);
    while let Some((node, by_rw)) = to_do.pop() {
        if node == from && !by_rw {
            return true;
        }
        for edge in all.0.edges(NodeIndex::new(node)) {
            let is_rw = *edge.weight() == Edge::Rw;
            let next = (edge.target().index(), is_rw);
            if !(by_rw && is_rw) && seen.insert(next) {
                to_do.push(next);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::history::Txn;
    use super::*;

    fn read(key: Key, list: &[Element]) -> Op {
        Op::Read(key, list.to_vec())
    }

    fn append(key: Key, base: &[Element], element: Element) -> Op {
        Op::Append(key, base.to_vec(), element)
    }

    /// Transactions that all went on at the same time.
    fn found(txns: &[(bool, &[Op])]) -> Vec<Anomaly> {
        let txn =
            |&(committed, ops): &(bool, &[Op])| Txn { begun: 0, ended: 1, committed, ops: ops.to_vec() };
        let history = History { initial: BTreeMap::new(), txns: txns.iter().map(txn).collect() };
        check(&history).into_keys().collect()
    }

    #[test]
    fn a_serial_history_has_none() {
        let one: &[Op] = &[read(1, &[]), append(1, &[], 10), append(1, &[10], 11), read(1, &[10, 11])];
        let two: &[Op] = &[append(1, &[10, 11], 12), append(2, &[], 20)];
        let three: &[Op] = &[read(1, &[10, 11, 12]), read(2, &[20])];
        assert_eq!(found(&[(true, one), (true, two), (true, three)]), []);
    }

    #[test]
    fn what_nobody_wrote_is_noticed() {
        assert_eq!(found(&[(true, &[read(1, &[7])])]), [Anomaly::Garbage]);
        // Elements that were never in this order.
        let (one, two): (&[Op], &[Op]) = (&[append(1, &[], 1)], &[append(1, &[1], 2)]);
        assert_eq!(found(&[(true, one), (true, two), (true, &[read(1, &[2])])]), [Anomaly::Garbage]);
    }

    #[test]
    fn what_a_transaction_wrote_it_sees() {
        assert_eq!(found(&[(true, &[append(1, &[], 1), read(1, &[])])]), [Anomaly::Internal]);
        let undone = Op::Undone(1, vec![], 1);
        assert_eq!(found(&[(true, &[undone.clone(), read(1, &[])])]), []);
        assert_eq!(found(&[(true, &[undone, read(1, &[1])])]), [Anomaly::G1a, Anomaly::NonRepeatable]);
    }

    #[test]
    fn g0() {
        // Each replaced what the other wrote, of two rows.
        let one: &[Op] = &[append(1, &[], 1), append(2, &[4], 2)];
        let two: &[Op] = &[append(1, &[1], 3), append(2, &[], 4)];
        assert!(found(&[(true, one), (true, two)]).contains(&Anomaly::G0));
    }

    #[test]
    fn g1a() {
        let (writer, reader): (&[Op], &[Op]) = (&[append(1, &[], 1)], &[read(1, &[1])]);
        assert_eq!(found(&[(false, writer), (true, reader)]), [Anomaly::G1a]);
        assert_eq!(found(&[(true, writer), (true, reader)]), []);
        assert_eq!(found(&[(false, writer), (false, reader)]), [Anomaly::G1a], "also by who was rolled back");
    }

    #[test]
    fn g1b() {
        let writer: &[Op] = &[append(1, &[], 1), append(1, &[1], 2)];
        assert_eq!(found(&[(true, writer), (true, &[read(1, &[1])])]), [Anomaly::G1b]);
        assert_eq!(found(&[(true, writer), (true, &[read(1, &[1, 2])])]), []);
    }

    #[test]
    fn g1c() {
        let one: &[Op] = &[append(1, &[], 1), read(2, &[2])];
        let two: &[Op] = &[append(2, &[], 2), read(1, &[1])];
        assert_eq!(found(&[(true, one), (true, two)]), [Anomaly::G1c]);
    }

    #[test]
    fn lost_updates() {
        let (one, two): (&[Op], &[Op]) = (&[append(1, &[], 1)], &[append(1, &[], 2)]);
        assert!(found(&[(true, one), (true, two)]).contains(&Anomaly::LostUpdate));
        assert_eq!(found(&[(true, one), (false, two)]), []);
    }

    #[test]
    fn reads_that_change() {
        let writer: &[Op] = &[append(1, &[], 1)];
        let reader: &[Op] = &[read(1, &[]), read(1, &[1])];
        assert_eq!(found(&[(true, writer), (true, reader)]), [Anomaly::NonRepeatable, Anomaly::GSingle]);
    }

    #[test]
    fn g_single() {
        // Read skew: one row from before the writer, the other from after.
        let writer: &[Op] = &[append(1, &[], 1), append(2, &[], 2)];
        let reader: &[Op] = &[read(1, &[]), read(2, &[2])];
        assert_eq!(found(&[(true, writer), (true, reader)]), [Anomaly::GSingle]);
    }

    #[test]
    fn g_nonadjacent() {
        // A long fork: two readers see two independent writers in different orders.
        let (one, two): (&[Op], &[Op]) = (&[append(1, &[], 1)], &[append(2, &[], 2)]);
        let first: &[Op] = &[read(1, &[1]), read(2, &[])];
        let second: &[Op] = &[read(1, &[]), read(2, &[2])];
        let txns = [(true, one), (true, two), (true, first), (true, second)];
        assert_eq!(found(&txns), [Anomaly::GNonadjacent]);
    }

    #[test]
    fn g2_item() {
        // Write skew: each read what the other replaced.
        let one: &[Op] = &[read(1, &[]), read(2, &[]), append(1, &[], 1)];
        let two: &[Op] = &[read(1, &[]), read(2, &[]), append(2, &[], 2)];
        assert_eq!(found(&[(true, one), (true, two)]), [Anomaly::G2Item]);
        assert_eq!(found(&[(true, one), (false, two)]), []);
    }

    #[test]
    fn stale_reads() {
        let txn = |begun, ended, ops: &[Op]| Txn { begun, ended, committed: true, ops: ops.to_vec() };
        let history = |begun| History {
            initial: BTreeMap::from([(1, vec![5])]),
            txns: vec![
                txn(0, 9, &[append(1, &[5], 6)]),
                txn(1, 4, &[append(1, &[5, 6], 7)]),
                txn(begun, 10, &[read(1, &[5])]),
            ],
        };
        assert_eq!(check(&history(3)).into_keys().collect::<Vec<_>>(), []);
        assert_eq!(check(&history(5)).into_keys().collect::<Vec<_>>(), [Anomaly::StaleRead]);
    }
}
