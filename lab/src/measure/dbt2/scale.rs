//! How many rows the tables have, and the random numbers of TPC-C: NURand, last names, strings.

use crate::measure::workload::{Random, stream};

/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Last names that exist.
const LAST_NAMES: u32 = 1_000;

/// The size of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses; all tables but `item` grow with them.
    pub warehouses: u32,
    /// Items, and rows of `stock` in a warehouse: 100,000.
    pub items: u32,
    /// Customers of a district, and its orders as loaded: 3,000.
    pub customers: u32,
}

impl Scale {
    /// TPC-C's rows for each warehouse.
    pub fn of(warehouses: u32) -> Self {
        Scale { warehouses, items: 100_000, customers: 3_000 }
    }

    /// A population small enough for tests.
    pub fn small(warehouses: u32) -> Self {
        Scale { warehouses, items: 1_000, customers: 60 }
    }

    /// Orders of a district that are not delivered when they are loaded: 900 of 3,000, the newest.
    pub fn undelivered(&self) -> u32 {
        self.customers * 3 / 10
    }

    /// All rows as loaded, with 9.5 lines an order on average.
    pub fn rows(&self) -> u64 {
        let (warehouses, customers) = (u64::from(self.warehouses), u64::from(self.customers));
        let of_district = 3 * customers + u64::from(self.undelivered()) + customers * 19 / 2 + 1;
        let of_warehouse = u64::from(self.items) + u64::from(DISTRICTS) * of_district + 1;
        warehouses * of_warehouse + u64::from(self.items)
    }
}

/// The constants of NURand, TPC-C's skewed random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constants {
    /// Of last names, when loading.
    last_loaded: u32,
    /// Of last names, when running.
    last: u32,
    customer: u32,
    item: u32,
}

impl Constants {
    /// The constants of a seed. Those of last names differ by one of TPC-C's permitted distances.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = stream(seed, purpose(Purpose::Constants, 0));
        let last_loaded = random.one_to(256) - 1;
        Constants {
            last_loaded,
            last: (last_loaded + 65 + random.one_to(25)) % 256,
            customer: random.one_to(1_024) - 1,
            item: random.one_to(8_192) - 1,
        }
    }

    /// A customer's number.
    pub(crate) fn customer(&self, random: &mut Random, scale: &Scale) -> u32 {
        nurand(random, 1_023, self.customer, (1, scale.customers))
    }

    /// An item's number.
    pub(crate) fn item(&self, random: &mut Random, scale: &Scale) -> u32 {
        nurand(random, 8_191, self.item, (1, scale.items))
    }

    /// The last name of a customer to look for.
    pub(crate) fn last_name(&self, random: &mut Random, scale: &Scale) -> String {
        last_name(nurand(random, 255, self.last, (0, LAST_NAMES.min(scale.customers) - 1)))
    }

    /// The last name of a customer as loaded: the first thousand have them all.
    pub(crate) fn last_name_of(&self, random: &mut Random, customer: u32) -> String {
        last_name(match customer <= LAST_NAMES {
            true => customer - 1,
            false => nurand(random, 255, self.last_loaded, (0, LAST_NAMES - 1)),
        })
    }
}

/// What a stream of random numbers is for; with a row's number it names the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Constants = 1,
    Warehouse,
    District,
    Customer,
    History,
    Order,
    OrderLine,
    CustomersOfOrders,
    Item,
    Stock,
    /// A user's inputs.
    User,
}

/// The number of a stream.
pub(crate) fn purpose(purpose: Purpose, row: u64) -> u64 {
    (purpose as u64) << 56 | row
}

/// `NURand(a, first, last)` with the constant `c`.
fn nurand(random: &mut Random, a: u32, c: u32, (first, last): (u32, u32)) -> u32 {
    let or = (random.one_to(a + 1) - 1) | between(random, first, last);
    (or + c) % (last - first + 1) + first
}

/// A uniform number from `first` to `last`.
pub(crate) fn between(random: &mut Random, first: u32, last: u32) -> u32 {
    random.one_to(last - first + 1) + first - 1
}

/// Whether an event of that many in a hundred happens.
pub(crate) fn percent(random: &mut Random, percent: u32) -> bool {
    random.one_to(100) <= percent
}

/// The last name with this number, 0 to 999: a syllable a digit.
pub(crate) fn last_name(number: u32) -> String {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// A random string of letters and digits, of `least` to `most` characters.
pub(crate) fn letters(random: &mut Random, least: u32, most: u32) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let length = between(random, least, most);
    string(random, length, LETTERS)
}

/// A random string of `length` digits.
pub(crate) fn digits(random: &mut Random, length: u32) -> String {
    string(random, length, b"0123456789")
}

/// As [`letters`], in a tenth of all cases with ORIGINAL somewhere inside.
pub(crate) fn data(random: &mut Random, least: u32, most: u32) -> String {
    const ORIGINAL: &str = "ORIGINAL";
    let mut text = letters(random, least, most);
    if percent(random, 10) {
        let at = random.one_to((text.len() - ORIGINAL.len() + 1) as u32) as usize - 1;
        text.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
    }
    text
}

/// Ten characters of 64 random bits: a draw a character costs most of a load's time.
fn string(random: &mut Random, length: u32, alphabet: &[u8]) -> String {
    let (mut text, mut bits, mut left) = (String::with_capacity(length as usize), 0, 0);
    for _ in 0..length {
        if left == 0 {
            (bits, left) = (random.next_u64(), 10);
        }
        // The six upper bits of what is left, scaled to the alphabet.
        let index = ((bits & 0x3f) * alphabet.len() as u64) >> 6;
        text.push(char::from(alphabet[index as usize]));
        (bits, left) = (bits >> 6, left - 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_syllables() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn random_numbers_stay_in_their_ranges_and_reach_both_ends() {
        let mut random = stream(1, 1);
        let drawn: Vec<u32> = (0..20_000).map(|_| nurand(&mut random, 255, 77, (1, 30))).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&30)));
        let between: Vec<u32> = (0..1_000).map(|_| super::between(&mut random, 5, 15)).collect();
        assert_eq!((between.iter().min(), between.iter().max()), (Some(&5), Some(&15)));
    }

    /// Skewed: each number of NURand(8191, 1, 100000) with all bits set is drawn far more often than one with none.
    #[test]
    fn nurand_is_skewed() {
        let mut random = stream(3, 1);
        let ones = |number: u32| (number & 8_191).count_ones();
        let drawn: u32 = (0..1_000).map(|_| ones(nurand(&mut random, 8_191, 0, (0, 99_999)))).sum();
        // Three quarters of 13 bits, where a uniform number has half of them.
        assert!((9_000..10_500).contains(&drawn), "{drawn}");
    }

    #[test]
    fn the_constants_of_last_names_have_a_permitted_distance() {
        for seed in 0..500 {
            let constants = Constants::of(seed);
            let distance = (256 + constants.last - constants.last_loaded) % 256;
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112, "{distance}");
        }
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut random = stream(5, 1);
        let original = (0..5_000).filter(|_| data(&mut random, 26, 50).contains("ORIGINAL")).count();
        assert!((400..600).contains(&original), "{original}");
        let text = letters(&mut random, 300, 500);
        assert!((300..=500).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn a_full_warehouse_has_half_a_million_rows() {
        assert_eq!(Scale::of(1).undelivered(), 900);
        // 100,000 stock, 30,000 each of customers, history and orders, 9,000 new, 285,000 lines, and the items.
        assert_eq!(Scale::of(1).rows(), 100_000 + 3 * 30_000 + 9_000 + 285_000 + 10 + 1 + 100_000);
    }
}
