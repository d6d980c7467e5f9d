//! Tables and rows as SQL.

use std::fmt::Write as _;

use flifo_engine::row::Value;

use super::{Kind, TableDefinition};

impl TableDefinition {
    /// The statement that creates the table in InnoDB, with a comment that has no quotes.
    pub(crate) fn create_sql(&self, comment: &str) -> String {
        let names = |columns: &mut dyn Iterator<Item = usize>| -> String {
            let names: Vec<String> = columns.map(|at| format!("`{}`", self.columns[at].name())).collect();
            names.join(", ")
        };
        let mut sql = format!("CREATE TABLE `{}` (", self.name);
        for column in self.columns {
            let null = if column.is_nullable { "NULL" } else { "NOT NULL" };
            let kind = match column.kind {
                Kind::Number => "INT".into(),
                Kind::Text(most) => format!("VARCHAR({most})"),
                Kind::Money => "DECIMAL(12,2)".into(),
                Kind::Rate => "DECIMAL(4,4)".into(),
                Kind::Time => "DATETIME".into(),
                Kind::Numbered => "BIGINT".into(),
            };
            let numbered = if column.kind == Kind::Numbered { " AUTO_INCREMENT" } else { "" };
            let _ = write!(sql, "`{}` {kind} {null}{numbered}, ", column.name());
        }
        let _ = write!(sql, "PRIMARY KEY ({})", names(&mut (0..self.key_columns)));
        if let Some(index) = self.index {
            let _ = write!(sql, ", KEY {} ({})", index.name, names(&mut index.columns.iter().copied()));
        }
        let _ = write!(sql, ") ENGINE=InnoDB CHARACTER SET latin1 COMMENT='{comment}'");
        sql
    }

    /// The beginning of a statement that inserts whole rows.
    pub(crate) fn insert_sql(&self) -> String {
        format!("INSERT INTO `{}` VALUES ", self.name)
    }

    /// Appends a row as such a statement has it.
    pub(crate) fn write_row(&self, row: &[Value], sql: &mut String) {
        for (place, (column, value)) in self.columns.iter().zip(row).enumerate() {
            sql.push(if place == 0 { '(' } else { ',' });
            write_literal(column.kind, value, sql);
        }
        sql.push(')');
    }
}

/// Writing into memory cannot fail.
fn write_literal(kind: Kind, value: &Value, sql: &mut String) {
    let number = value.as_ref().as_i64().unwrap_or_default();
    let _ = match (kind, value) {
        (_, Value::Null) => write!(sql, "NULL"),
        (Kind::Text(_), value) => {
            write!(sql, "'{}'", value.as_ref().as_text().unwrap_or_default().replace('\'', "''"))
        }
        (Kind::Money, _) => {
            let sign = if number < 0 { "-" } else { "" };
            write!(sql, "{sign}{}.{:02}", number.abs() / 100, number.abs() % 100)
        }
        (Kind::Rate, _) => write!(sql, "{}.{:04}", number / 10_000, number % 10_000),
        (Kind::Time, _) => write!(sql, "FROM_UNIXTIME({number})"),
        (Kind::Number | Kind::Numbered, _) => write!(sql, "{number}"),
    };
}

#[cfg(test)]
mod tests {
    use crate::measure::definition::table;

    table!(sale, "sale", key 2, Some(IndexDefinition {
        name: "by_buyer", columns: &[BUYER, ID], newest_first: true,
    }), {
        SHOP: Number, false;
        ID: Numbered, false;
        BUYER: Text(9), true;
        PRICE: Money, false;
        TAX: Rate, false;
        AT: Time, false;
    });

    #[test]
    fn a_table_and_a_row_as_sql() {
        assert_eq!(
            sale::TABLE.create_sql("ours"),
            "CREATE TABLE `sale` (`shop` INT NOT NULL, `id` BIGINT NOT NULL AUTO_INCREMENT, `buyer` VARCHAR(9) NULL, \
             `price` DECIMAL(12,2) NOT NULL, `tax` DECIMAL(4,4) NOT NULL, `at` DATETIME NOT NULL, \
             PRIMARY KEY (`shop`, `id`), KEY by_buyer (`buyer`, `id`)) \
             ENGINE=InnoDB CHARACTER SET latin1 COMMENT='ours'"
        );
        let mut sql = sale::TABLE.insert_sql();
        let row =
            [3_i64.into(), 4_i64.into(), "O'Neil".into(), (-1_205_i64).into(), 925_i64.into(), 7_i64.into()];
        sale::TABLE.write_row(&row, &mut sql);
        assert_eq!(sql, "INSERT INTO `sale` VALUES (3,4,'O''Neil',-12.05,0.0925,FROM_UNIXTIME(7))");
    }
}
