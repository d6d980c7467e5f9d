//! The nine tables, with the columns and lengths of TPC-C.
//!
//! A column's place is a constant: `customer::C_BALANCE`.

use crate::measure::definition::{TableDefinition, table};

table!(warehouse, "warehouse", key 1, None, {
    W_ID: Number, false;
    W_NAME: Text(10), false;
    W_STREET_1: Text(20), false;
    W_STREET_2: Text(20), false;
    W_CITY: Text(20), false;
    W_STATE: Text(2), false;
    W_ZIP: Text(9), false;
    W_TAX: Rate, false;
    W_YTD: Money, false;
});

table!(district, "district", key 2, None, {
    D_W_ID: Number, false;
    D_ID: Number, false;
    D_NAME: Text(10), false;
    D_STREET_1: Text(20), false;
    D_STREET_2: Text(20), false;
    D_CITY: Text(20), false;
    D_STATE: Text(2), false;
    D_ZIP: Text(9), false;
    D_TAX: Rate, false;
    D_YTD: Money, false;
    D_NEXT_O_ID: Number, false;
});

table!(customer, "customer", key 3, Some(IndexDefinition {
    name: "by_name", columns: &[C_W_ID, C_D_ID, C_LAST, C_FIRST], newest_first: false,
}), {
    C_W_ID: Number, false;
    C_D_ID: Number, false;
    C_ID: Number, false;
    C_FIRST: Text(16), false;
    C_MIDDLE: Text(2), false;
    C_LAST: Text(16), false;
    C_STREET_1: Text(20), false;
    C_STREET_2: Text(20), false;
    C_CITY: Text(20), false;
    C_STATE: Text(2), false;
    C_ZIP: Text(9), false;
    C_PHONE: Text(16), false;
    C_SINCE: Time, false;
    C_CREDIT: Text(2), false;
    C_CREDIT_LIM: Money, false;
    C_DISCOUNT: Rate, false;
    C_BALANCE: Money, false;
    C_YTD_PAYMENT: Money, false;
    C_PAYMENT_CNT: Number, false;
    C_DELIVERY_CNT: Number, false;
    C_DATA: Text(500), false;
});

table!(history, "history", key 1, None, {
    H_ID: Numbered, false;
    H_C_ID: Number, false;
    H_C_D_ID: Number, false;
    H_C_W_ID: Number, false;
    H_D_ID: Number, false;
    H_W_ID: Number, false;
    H_DATE: Time, false;
    H_AMOUNT: Money, false;
    H_DATA: Text(24), false;
});

table!(orders, "orders", key 3, Some(IndexDefinition {
    name: "by_customer", columns: &[O_W_ID, O_D_ID, O_C_ID, O_ID], newest_first: true,
}), {
    O_W_ID: Number, false;
    O_D_ID: Number, false;
    O_ID: Number, false;
    O_C_ID: Number, false;
    O_ENTRY_D: Time, false;
    O_CARRIER_ID: Number, true;
    O_OL_CNT: Number, false;
    O_ALL_LOCAL: Number, false;
});

table!(new_order, "new_order", key 3, None, {
    NO_W_ID: Number, false;
    NO_D_ID: Number, false;
    NO_O_ID: Number, false;
});

table!(order_line, "order_line", key 4, None, {
    OL_W_ID: Number, false;
    OL_D_ID: Number, false;
    OL_O_ID: Number, false;
    OL_NUMBER: Number, false;
    OL_I_ID: Number, false;
    OL_SUPPLY_W_ID: Number, false;
    OL_DELIVERY_D: Time, true;
    OL_QUANTITY: Number, false;
    OL_AMOUNT: Money, false;
    OL_DIST_INFO: Text(24), false;
});

table!(item, "item", key 1, None, {
    I_ID: Number, false;
    I_IM_ID: Number, false;
    I_NAME: Text(24), false;
    I_PRICE: Money, false;
    I_DATA: Text(50), false;
});

table!(stock, "stock", key 2, None, {
    S_W_ID: Number, false;
    S_I_ID: Number, false;
    S_QUANTITY: Number, false;
    S_DIST_01: Text(24), false;
    S_DIST_02: Text(24), false;
    S_DIST_03: Text(24), false;
    S_DIST_04: Text(24), false;
    S_DIST_05: Text(24), false;
    S_DIST_06: Text(24), false;
    S_DIST_07: Text(24), false;
    S_DIST_08: Text(24), false;
    S_DIST_09: Text(24), false;
    S_DIST_10: Text(24), false;
    S_YTD: Number, false;
    S_ORDER_CNT: Number, false;
    S_REMOTE_CNT: Number, false;
    S_DATA: Text(50), false;
});

/// All tables, the largest first: a loader that takes the next one whenever a thread is free ends earliest this way.
pub(crate) const TABLES: [TableDefinition; 9] = [
    order_line::TABLE,
    stock::TABLE,
    customer::TABLE,
    orders::TABLE,
    history::TABLE,
    item::TABLE,
    new_order::TABLE,
    district::TABLE,
    warehouse::TABLE,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_one_of_the_engine_s() {
        for table in TABLES {
            let schema = table.schema().unwrap();
            assert_eq!(schema.columns().len(), table.columns.len(), "{}", table.name);
        }
        assert_eq!(customer::TABLE.columns[customer::C_DATA].name(), "c_data");
        assert_eq!(stock::S_DIST_10 - stock::S_DIST_01, 9);
    }
}
