//! The five transactions as SQL on a server, at READ COMMITTED: what a transaction changes it locks first.
//!
//! The statements are DBT-2's, except that stock is locked when it is read, and that `order_line` has its time from the
//! server's clock.

use mysql_common::value::Value;

use super::inputs::{Input, NewOrder, Payment, Quirks, ScriptOf, TransactionKind, Who};
use super::population::BAD_CREDIT;
use super::scale::DISTRICTS;
use super::transactions::{RECENT_ORDERS, bad_credit, remaining};
use super::users::{self, Execute, Load};
use crate::measure::closed_loop::{Attempt, Counts, End, Group, User};
use crate::measure::frontend::Window;
use crate::measure::server::Protocol;
use crate::measure::server::endpoint::Endpoint;
use crate::measure::server::statements::{Failed, Statements, integer, statements, text};
use crate::support::error::Error;

statements! {
    WarehouseTax: "SELECT w_tax FROM warehouse WHERE w_id = ?";
    DistrictForOrder: "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE";
    DistrictNext: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?";
    CustomerForOrder: "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    InsertNewOrder: "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (?, ?, ?)";
    InsertOrder: "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) VALUES (?, ?, ?, ?, NOW(), NULL, ?, ?)";
    Item: "SELECT i_price, i_name, i_data FROM item WHERE i_id = ?";
    Stock: "SELECT s_quantity, ELT(?, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10), s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE";
    UpdateStock: "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?";
    InsertLine: "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ? / 100, ?)";
    WarehouseForPayment: "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ? FOR UPDATE";
    PayWarehouse: "UPDATE warehouse SET w_ytd = w_ytd + ? / 100 WHERE w_id = ?";
    DistrictForPayment: "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE";
    PayDistrict: "UPDATE district SET d_ytd = d_ytd + ? / 100 WHERE d_w_id = ? AND d_id = ?";
    CustomersOfName: "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first";
    CustomerForPayment: "SELECT c_credit, c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE";
    PayCustomer: "UPDATE customer SET c_balance = c_balance - ? / 100, c_ytd_payment = c_ytd_payment + ? / 100, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    NoteCustomer: "UPDATE customer SET c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    InsertHistory: "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (?, ?, ?, ?, ?, NOW(), ? / 100, ?)";
    CustomerStatus: "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    LastOrder: "SELECT o_id, o_carrier_id, o_entry_d, o_ol_cnt FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? ORDER BY o_id DESC LIMIT 1";
    Lines: "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    OldestNewOrder: "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1";
    DeleteNewOrder: "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?";
    OrderCustomer: "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
    OrderCarrier: "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?";
    DeliverLines: "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    SumLines: "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?";
    DeliverCustomer: "UPDATE customer SET c_balance = c_balance + ? / 100, c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    NextOrder: "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?";
    LowStock: "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_w_id = ol_w_id AND s_i_id = ol_i_id AND s_quantity < ?";
}

type Ran<T> = Result<T, Failed>;

/// One user's transactions on a connection.
struct Executor<'s> {
    statements: &'s mut Statements,
    quirks: Quirks,
}

fn numbers<const N: usize>(numbers: [u32; N]) -> [Value; N] {
    numbers.map(|number| Value::Int(number.into()))
}

impl Executor<'_> {
    fn change<const N: usize>(&mut self, sql: Sql, values: [u32; N]) -> Ran<u64> {
        Ok(self.statements.run(sql as usize, &numbers(values))?.changed)
    }

    fn row<const N: usize>(&mut self, sql: Sql, values: [u32; N]) -> Ran<Vec<Value>> {
        let row = self.statements.row(sql as usize, &numbers(values))?;
        row.ok_or_else(|| Failed::Lasts(missing(TEXTS[sql as usize])))
    }

    fn run(&mut self, input: &Input) -> Ran<End> {
        self.statements.control("START TRANSACTION")?;
        let end = match input {
            Input::NewOrder(order) => self.new_order(order)?,
            Input::Payment(payment) => self.payment(payment)?,
            Input::OrderStatus { warehouse, district, who } => {
                self.order_status((*warehouse, *district), who)?
            }
            Input::Delivery { warehouse, carrier } => self.delivery(*warehouse, *carrier)?,
            Input::StockLevel { warehouse, district, threshold } => {
                let next: u32 = integer_of(&self.row(Sql::NextOrder, [*warehouse, *district])?, 0)?;
                let first = next.saturating_sub(RECENT_ORDERS);
                self.row(Sql::LowStock, [*warehouse, *district, first, next, *threshold])?;
                End::Committed
            }
        };
        self.statements.control(if end == End::Committed { "COMMIT" } else { "ROLLBACK" })?;
        Ok(end)
    }

    fn new_order(&mut self, order: &NewOrder) -> Ran<End> {
        let NewOrder { warehouse: w, district: d, customer: c, ref lines } = *order;
        self.row(Sql::WarehouseTax, [w])?;
        let o: u32 = integer_of(&self.row(Sql::DistrictForOrder, [w, d])?, 1)?;
        self.change(Sql::DistrictNext, [w, d])?;
        self.row(Sql::CustomerForOrder, [w, d, c])?;
        self.change(Sql::InsertNewOrder, [w, d, o])?;
        let is_local = lines.iter().all(|line| line.supply == w);
        self.change(Sql::InsertOrder, [w, d, o, c, lines.len() as u32, is_local.into()])?;
        for (place, line) in lines.iter().enumerate() {
            let Some(item) = self.statements.row(Sql::Item as usize, &numbers([line.item]))? else {
                return Ok(End::RolledBack);
            };
            let price: i64 = integer_of(&item, 0)?;
            let stock = self.row(Sql::Stock, [d, line.supply, line.item])?;
            let left = remaining(integer_of(&stock, 0)?, line.quantity);
            let is_remote = u32::from(line.supply != w);
            self.change(Sql::UpdateStock, [left, line.quantity, is_remote, line.supply, line.item])?;
            let mut values =
                numbers([w, d, o, place as u32 + 1, line.item, line.supply, line.quantity]).to_vec();
            values.push(Value::Int(price * i64::from(line.quantity)));
            values.push(stock[1].clone());
            self.statements.run(Sql::InsertLine as usize, &values)?;
        }
        Ok(End::Committed)
    }

    fn payment(&mut self, payment: &Payment) -> Ran<End> {
        let Payment { warehouse: w, district: d, of: (c_w, c_d), ref who, cents } = *payment;
        let cents = Value::Int(cents);
        let with = |amounts: &[&Value], keys: &[Value]| -> Vec<Value> {
            amounts.iter().copied().chain(keys).cloned().collect()
        };
        let w_name = text(&self.row(Sql::WarehouseForPayment, [w])?[0]);
        self.statements.run(Sql::PayWarehouse as usize, &with(&[&cents], &numbers([w])))?;
        let d_name = text(&self.row(Sql::DistrictForPayment, [w, d])?[0]);
        self.statements.run(Sql::PayDistrict as usize, &with(&[&cents], &numbers([w, d])))?;
        let c = self.customer((c_w, c_d), who)?;
        let customer = numbers([c_w, c_d, c]);
        let found = self.row(Sql::CustomerForPayment, [c_w, c_d, c])?;
        self.statements.run(Sql::PayCustomer as usize, &with(&[&cents, &cents], &customer))?;
        if text(&found[0]) == BAD_CREDIT {
            let data = bad_credit((c, c_d, c_w), payment, &text(&found[1]));
            let data = Value::Bytes(data.into_bytes());
            self.statements.run(Sql::NoteCustomer as usize, &with(&[&data], &customer))?;
        }
        let mut values = numbers([c, c_d, c_w, d, w]).to_vec();
        values.extend([cents, Value::Bytes(format!("{w_name}    {d_name}").into_bytes())]);
        self.statements.run(Sql::InsertHistory as usize, &values)?;
        Ok(End::Committed)
    }

    fn order_status(&mut self, (w, d): (u32, u32), who: &Who) -> Ran<End> {
        let c = self.customer((w, d), who)?;
        self.row(Sql::CustomerStatus, [w, d, c])?;
        if let Some(last) = self.statements.row(Sql::LastOrder as usize, &numbers([w, d, c]))? {
            self.row(Sql::Lines, [w, d, integer_of(&last, 0)?])?;
        }
        Ok(End::Committed)
    }

    fn delivery(&mut self, w: u32, carrier: u32) -> Ran<End> {
        for d in 1..=DISTRICTS {
            let Some(o) = self.take_oldest((w, d))? else { continue };
            let c = integer_of(&self.row(Sql::OrderCustomer, [w, d, o])?, 0)?;
            self.change(Sql::OrderCarrier, [carrier, w, d, o])?;
            self.change(Sql::DeliverLines, [w, d, o])?;
            let sum: i64 = integer_of(&self.row(Sql::SumLines, [w, d, o])?, 0)?;
            let mut values = vec![Value::Int(sum)];
            values.extend(numbers([w, d, c]));
            self.statements.run(Sql::DeliverCustomer as usize, &values)?;
        }
        Ok(End::Committed)
    }

    /// Removes the oldest new order of a district; which order it was.
    fn take_oldest(&mut self, (w, d): (u32, u32)) -> Ran<Option<u32>> {
        loop {
            let oldest = self.statements.row(Sql::OldestNewOrder as usize, &numbers([w, d]))?;
            let Some(oldest) = oldest else { return Ok(None) };
            let o = integer_of(&oldest, 0)?;
            // Otherwise another delivery took it while this one waited: the next look sees that.
            if self.change(Sql::DeleteNewOrder, [w, d, o])? > 0 {
                return Ok(Some(o));
            }
        }
    }

    fn customer(&mut self, (w, d): (u32, u32), who: &Who) -> Ran<u32> {
        let name = match who {
            Who::Id(c) => return Ok(*c),
            Who::LastName(name) => name,
        };
        let mut values = numbers([w, d]).to_vec();
        values.push(Value::Bytes(name.clone().into_bytes()));
        let found = self.statements.run(Sql::CustomersOfName as usize, &values)?.rows;
        let chosen = self.quirks.chosen(found.len()).map(|place| integer_of(&found[place], 0));
        chosen.unwrap_or_else(|| Err(Failed::Lasts(missing(TEXTS[Sql::CustomersOfName as usize]))))
    }
}

/// The integer at a place of a row.
fn integer_of<N: TryFrom<i64>>(row: &[Value], place: usize) -> Ran<N> {
    let number = row.get(place).and_then(integer).and_then(|number| N::try_from(number).ok());
    number.ok_or(Failed::Lasts(Error::Protocol("a number that is none")))
}

fn missing(sql: &str) -> Error {
    Error::Cell(format!(
        "'{sql}' found no row, and every data set has one: drop the tables of dbt2 to load them again"
    ))
}

impl Execute for Executor<'_> {
    fn attempt(&mut self, input: &Input) -> Result<Attempt, Error> {
        match self.run(input) {
            Ok(end) => Ok(Attempt::Ended(end)),
            Err(Failed::Lasts(error)) => Err(error),
            Err(Failed::Passes(why)) => {
                // After a timeout the rest of the transaction is still open.
                match self.statements.control("ROLLBACK") {
                    Ok(()) | Err(Failed::Passes(_)) => Ok(Attempt::Again(why)),
                    Err(Failed::Lasts(error)) => Err(error),
                }
            }
        }
    }

    fn take_statements(&mut self) -> u64 {
        self.statements.take_executed()
    }
}

/// Users of a server, each with a connection and a thread.
pub(crate) struct ServerUsers {
    group: Group<ServerUser>,
    data: (super::Scale, u64),
}

impl ServerUsers {
    /// Opens the connections of that many users.
    pub(crate) fn open(
        users: u32,
        (endpoint, protocol): (&Endpoint, Protocol),
        data: (super::Scale, u64),
    ) -> Result<Self, Error> {
        let user = |number| -> Result<ServerUser, Error> {
            Ok(ServerUser { number, statements: Statements::open(endpoint, protocol, TEXTS)? })
        };
        let all = (0..users).map(user).collect::<Result<Vec<_>, _>>()?;
        Ok(ServerUsers { group: Group::open(all, TransactionKind::ALL.len())?, data })
    }

    /// Starts a cell. The window opens after `settle` and stays open for `time`.
    pub(crate) fn begin(
        &self,
        load: &Load,
        times: (std::time::Duration, std::time::Duration),
    ) -> std::sync::Arc<Window> {
        self.group.begin(load.script(self.data), times)
    }

    /// Waits for the last transaction; returns the sum of all counters.
    pub(crate) fn finish(&mut self) -> Result<Counts, Error> {
        self.group.finish()
    }

    /// Kernel ids of the threads.
    pub(crate) fn tids(&self) -> &[u32] {
        self.group.tids()
    }
}

struct ServerUser {
    number: u32,
    statements: Statements,
}

impl User for ServerUser {
    type Load = ScriptOf;

    fn run(&mut self, script: &ScriptOf, window: &Window) -> Result<Counts, Error> {
        let executor = Executor { statements: &mut self.statements, quirks: script.quirks };
        users::run(executor, script, self.number, window)
    }
}
