//! The inputs of the transactions, their mix, and the times that a user takes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand_distr::Exp1;

use super::scale::{Constants, DISTRICTS, Purpose, Scale, between, percent, purpose};
use crate::measure::workload::{Random, stream};

/// Lines of a new order, least and most.
const LINES: (u32, u32) = (6, 15);

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionKind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl TransactionKind {
    /// In the order of a [`Mix`].
    pub const ALL: [TransactionKind; 5] = [
        TransactionKind::NewOrder,
        TransactionKind::Payment,
        TransactionKind::OrderStatus,
        TransactionKind::Delivery,
        TransactionKind::StockLevel,
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            TransactionKind::NewOrder => "new-order",
            TransactionKind::Payment => "payment",
            TransactionKind::OrderStatus => "order-status",
            TransactionKind::Delivery => "delivery",
            TransactionKind::StockLevel => "stock-level",
        }
    }

    /// TPC-C's keying time, and its mean think time.
    fn times(self) -> (Duration, Duration) {
        let (keying, think) = match self {
            TransactionKind::NewOrder => (18, 12),
            TransactionKind::Payment => (3, 12),
            TransactionKind::OrderStatus => (2, 10),
            TransactionKind::Delivery => (2, 5),
            TransactionKind::StockLevel => (2, 5),
        };
        (Duration::from_secs(keying), Duration::from_secs(think))
    }
}

/// The share of each transaction, percent, in the order of [`TransactionKind::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix([u8; 5]);

impl Default for Mix {
    fn default() -> Self {
        Mix([45, 43, 4, 4, 4])
    }
}

impl Mix {
    /// The share of one, percent.
    pub fn percent(&self, kind: TransactionKind) -> u8 {
        self.0[kind as usize]
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shares: Result<Vec<u8>, _> = text.split(',').map(|share| share.trim().parse()).collect();
        match <[u8; 5]>::try_from(shares.unwrap_or_default()) {
            Ok(shares) if shares.iter().map(|share| u32::from(*share)).sum::<u32>() == 100 => Ok(Mix(shares)),
            _ => Err("a mix is five percentages that add up to 100, as 45,43,4,4,4: new order, payment, order status, delivery, stock level".into()),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares: Vec<String> = self.0.iter().map(u8::to_string).collect();
        f.write_str(&shares.join(","))
    }
}

/// What users do between two transactions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Nothing, as in the published runs. Each transaction draws its warehouse, as there may be fewer users than
    /// districts.
    Unthrottled,
    /// TPC-C's keying and think times, multiplied by this factor. Each user has a home warehouse.
    ThinkTimes(f64),
}

/// The two places where DBT-2 differs from TPC-C.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks {
    /// A customer looked for by name is the first by first name, and not the middle one.
    pub first_by_name: bool,
    /// A line from another warehouse reads and changes the home warehouse's stock.
    pub remote_is_home: bool,
}

impl Quirks {
    /// As DBT-2 does.
    pub const DBT2: Quirks = Quirks { first_by_name: true, remote_is_home: true };

    /// The place of the chosen one among `count` customers of a name: TPC-C's is the middle one, rounded up.
    pub(crate) fn chosen(self, count: usize) -> Option<usize> {
        match (count, self.first_by_name) {
            (0, _) => None,
            (_, true) => Some(0),
            (count, false) => Some((count - 1) / 2),
        }
    }
}

/// How a customer is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    Id(u32),
    LastName(String),
}

/// A line of a new order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) item: u32,
    /// The warehouse that supplies it.
    pub(crate) supply: u32,
    pub(crate) quantity: u32,
}

/// The input of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus { warehouse: u32, district: u32, who: Who },
    Delivery { warehouse: u32, carrier: u32 },
    StockLevel { warehouse: u32, district: u32, threshold: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewOrder {
    pub(crate) warehouse: u32,
    pub(crate) district: u32,
    pub(crate) customer: u32,
    /// 6 to 15 of them. In one of a hundred orders the last item does not exist.
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) warehouse: u32,
    pub(crate) district: u32,
    /// Warehouse and district of the customer.
    pub(crate) of: (u32, u32),
    pub(crate) who: Who,
    pub(crate) cents: i64,
}

impl Input {
    /// The transaction that it is for.
    pub(crate) fn kind(&self) -> TransactionKind {
        match self {
            Input::NewOrder(_) => TransactionKind::NewOrder,
            Input::Payment(_) => TransactionKind::Payment,
            Input::OrderStatus { .. } => TransactionKind::OrderStatus,
            Input::Delivery { .. } => TransactionKind::Delivery,
            Input::StockLevel { .. } => TransactionKind::StockLevel,
        }
    }
}

/// The endless sequence of one user's transactions. Seed, round and user determine it.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    random: Random,
    scale: Scale,
    constants: Constants,
    mix: Mix,
    pace: Pace,
    quirks: Quirks,
    /// The home of a user with think times.
    home: (u32, u32),
    /// The kinds still to come of a hundred, shuffled: the shares of a run are those of the mix.
    deck: Vec<TransactionKind>,
}

/// What all users of a cell do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScriptOf {
    pub(crate) scale: Scale,
    /// Of the data, whose names and items it needs.
    pub(crate) data_seed: u64,
    pub(crate) mix: Mix,
    pub(crate) pace: Pace,
    pub(crate) quirks: Quirks,
    pub(crate) seed: u64,
    pub(crate) round: u32,
}

impl Script {
    /// The sequence of `user`.
    pub(crate) fn new(of: &ScriptOf, user: u32) -> Self {
        let row = u64::from(of.round) << 32 | u64::from(user);
        let warehouses = of.scale.warehouses;
        Script {
            random: stream(of.seed, purpose(Purpose::User, row)),
            scale: of.scale,
            constants: Constants::of(of.data_seed),
            mix: of.mix,
            pace: of.pace,
            quirks: of.quirks,
            home: (1 + user % warehouses, 1 + user / warehouses % DISTRICTS),
            deck: Vec::new(),
        }
    }

    /// The next input.
    pub(crate) fn next_input(&mut self) -> Input {
        let kind = self.next_kind();
        let (warehouse, own_district) = match self.pace {
            Pace::Unthrottled => (between(&mut self.random, 1, self.scale.warehouses), None),
            Pace::ThinkTimes(_) => (self.home.0, Some(self.home.1)),
        };
        let district = between(&mut self.random, 1, DISTRICTS);
        match kind {
            TransactionKind::NewOrder => Input::NewOrder(self.new_order(warehouse, district)),
            TransactionKind::Payment => Input::Payment(self.payment(warehouse, district)),
            TransactionKind::OrderStatus => Input::OrderStatus { warehouse, district, who: self.customer() },
            TransactionKind::Delivery => {
                Input::Delivery { warehouse, carrier: between(&mut self.random, 1, 10) }
            }
            TransactionKind::StockLevel => Input::StockLevel {
                warehouse,
                district: own_district.unwrap_or(district),
                threshold: between(&mut self.random, 10, 20),
            },
        }
    }

    /// How long the user keys before a transaction and thinks after the previous one.
    pub(crate) fn pause(&mut self, kind: TransactionKind) -> Duration {
        let Pace::ThinkTimes(factor) = self.pace else { return Duration::ZERO };
        let (keying, think) = kind.times();
        // TPC-C cuts think times at ten times their mean.
        let exponential = self.random.sample(&Exp1).min(10.0);
        keying.mul_f64(factor) + think.mul_f64(factor * exponential)
    }

    fn next_kind(&mut self) -> TransactionKind {
        if self.deck.is_empty() {
            for kind in TransactionKind::ALL {
                self.deck.extend(std::iter::repeat_n(kind, self.mix.percent(kind).into()));
            }
            for card in (1..self.deck.len()).rev() {
                self.deck.swap(card, self.random.below(card as u64 + 1) as usize);
            }
        }
        self.deck.pop().expect("a mix has a hundred parts")
    }

    fn new_order(&mut self, warehouse: u32, district: u32) -> NewOrder {
        let random = &mut self.random;
        let customer = self.constants.customer(random, &self.scale);
        let count = between(random, LINES.0, LINES.1);
        let is_wrong = percent(random, 1);
        let lines = (1..=count).map(|number| {
            let item = match is_wrong && number == count {
                true => self.scale.items + 1,
                false => self.constants.item(random, &self.scale),
            };
            let is_remote = percent(random, 1) && !self.quirks.remote_is_home;
            let supply =
                if is_remote { another(random, warehouse, self.scale.warehouses) } else { warehouse };
            Line { item, supply, quantity: between(random, 1, 10) }
        });
        NewOrder { warehouse, district, customer, lines: lines.collect() }
    }

    fn payment(&mut self, warehouse: u32, district: u32) -> Payment {
        let random = &mut self.random;
        let of = match percent(random, 15) {
            true => (another(random, warehouse, self.scale.warehouses), between(random, 1, DISTRICTS)),
            false => (warehouse, district),
        };
        let cents = between(random, 101, 500_100).into();
        Payment { warehouse, district, of, who: self.customer(), cents }
    }

    /// Six of ten by last name.
    fn customer(&mut self) -> Who {
        match percent(&mut self.random, 60) {
            true => Who::LastName(self.constants.last_name(&mut self.random, &self.scale)),
            false => Who::Id(self.constants.customer(&mut self.random, &self.scale)),
        }
    }
}

/// Another warehouse, if there is one.
fn another(random: &mut Random, home: u32, warehouses: u32) -> u32 {
    if warehouses == 1 {
        return home;
    }
    let other = between(random, 1, warehouses - 1);
    if other >= home { other + 1 } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(scale: Scale, pace: Pace, quirks: Quirks) -> Script {
        let of = ScriptOf { scale, data_seed: 1, mix: Mix::default(), pace, quirks, seed: 1, round: 0 };
        Script::new(&of, 5)
    }

    fn inputs(count: usize, quirks: Quirks) -> Vec<Input> {
        let mut script = script(Scale::of(3), Pace::Unthrottled, quirks);
        (0..count).map(|_| script.next_input()).collect()
    }

    /// A deck has each share exactly; a part of a deck does not reach a hundredth of the whole.
    #[test]
    fn the_shares_are_those_of_the_mix() {
        let inputs = inputs(10_050, Quirks::default());
        for kind in TransactionKind::ALL {
            let found = inputs.iter().filter(|input| input.kind() == kind).count() as f64 / 100.5;
            let wanted = f64::from(Mix::default().percent(kind));
            assert!((found - wanted).abs() < 1.0, "{} {found}", kind.name());
        }
    }

    #[test]
    fn a_mix_is_five_percentages() {
        assert_eq!("45,43,4,4,4".parse(), Ok(Mix::default()));
        assert_eq!("100,0,0,0,0".parse::<Mix>().unwrap().to_string(), "100,0,0,0,0");
        for wrong in
            ["", "45,43,4,4", "45,43,4,4,5", "45,43,4,4,4,0", "a,43,4,4,4", "45,a,43,4,4,4", "300,0,0,0,0"]
        {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn inputs_are_those_of_tpc_c() {
        let inputs = inputs(40_000, Quirks::default());
        let (mut lines, mut remote, mut wrong, mut orders) = (0.0, 0.0, 0.0, 0.0);
        let (mut payments, mut elsewhere, mut by_name) = (0.0, 0.0, 0.0);
        for input in &inputs {
            match input {
                Input::NewOrder(order) => {
                    assert!((6..=15).contains(&order.lines.len()));
                    assert!((1..=3_000).contains(&order.customer));
                    orders += 1.0;
                    lines += order.lines.len() as f64;
                    remote += order.lines.iter().filter(|line| line.supply != order.warehouse).count() as f64;
                    wrong += order.lines.iter().filter(|line| line.item > 100_000).count() as f64;
                }
                Input::Payment(payment) => {
                    assert!((101..=500_100).contains(&payment.cents));
                    payments += 1.0;
                    elsewhere += f64::from(u8::from(payment.of.0 != payment.warehouse));
                    by_name += f64::from(u8::from(matches!(payment.who, Who::LastName(_))));
                }
                Input::StockLevel { threshold, .. } => assert!((10..=20).contains(threshold)),
                Input::OrderStatus { district, .. } => assert!((1..=10).contains(district)),
                Input::Delivery { carrier, .. } => assert!((1..=10).contains(carrier)),
            }
        }
        let near = |found: f64, share: f64| assert!((found - share).abs() < share * 0.25, "{found} {share}");
        near(remote / lines, 0.01);
        near(wrong / orders, 0.01);
        near(elsewhere / payments, 0.15);
        near(by_name / payments, 0.60);
    }

    #[test]
    fn with_the_quirk_no_line_is_remote() {
        for input in inputs(5_000, Quirks::DBT2) {
            if let Input::NewOrder(order) = input {
                assert!(order.lines.iter().all(|line| line.supply == order.warehouse));
            }
        }
    }

    #[test]
    fn the_customer_of_a_name_is_the_middle_or_the_first() {
        let chosen = |count| (Quirks::default().chosen(count), Quirks::DBT2.chosen(count));
        assert_eq!([chosen(0), chosen(1)], [(None, None), (Some(0), Some(0))]);
        // TPC-C: position n/2 rounded up, counted from 1.
        assert_eq!([chosen(3), chosen(4)], [(Some(1), Some(0)), (Some(1), Some(0))]);
    }

    #[test]
    fn users_with_think_times_stay_at_home_and_pause() {
        let mut script = script(Scale::of(3), Pace::ThinkTimes(0.01), Quirks::default());
        assert_eq!(script.home, (3, 2));
        let mut paused = Duration::ZERO;
        for _ in 0..1_000 {
            let input = script.next_input();
            if let Input::StockLevel { warehouse, district, .. } = input {
                assert_eq!((warehouse, district), (3, 2));
            }
            paused += script.pause(input.kind());
        }
        // 45% of 30 s, 43% of 15 s, 4% each of 12 s, 7 s and 7 s, times 0.01.
        let mean = paused.as_secs_f64() / 1_000.0;
        assert!((0.17..0.26).contains(&mean), "{mean}");
        assert_eq!(
            self::script(Scale::of(1), Pace::Unthrottled, Quirks::default()).pause(TransactionKind::Payment),
            Duration::ZERO
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_inputs() {
        assert_eq!(inputs(200, Quirks::default()), inputs(200, Quirks::default()));
        let first = |user, round| {
            let mix = Mix::default();
            let (scale, pace, quirks) = (Scale::of(3), Pace::Unthrottled, Quirks::default());
            let of = ScriptOf { scale, data_seed: 1, mix, pace, quirks, seed: 1, round };
            Script::new(&of, user).next_input()
        };
        assert_ne!(first(5, 0), first(5, 1));
        assert_ne!(first(5, 0), first(6, 0));
    }
}
