//! A table's definition in the catalog.
//!
//! ```text
//! offset size
//!      0    8  page number of the root of the rows' tree
//!      8    1  kind: 0 plain keys and values, 1 typed columns
//!                    typed only:
//!      9    2  indexes, n
//!     11  8 n  page number of the root of each one's tree
//! 11+8 n       the schema
//! ```

use crate::page::PageNo;
use crate::row::Schema;

const PLAIN: u8 = 0;
const TYPED: u8 = 1;

/// What the catalog says about a table.
pub(super) struct Definition {
    pub(super) root: PageNo,
    pub(super) typed: Option<Typed>,
}

/// Columns and indexes of a table.
pub(super) struct Typed {
    pub(super) schema: Schema,
    /// The roots of the indexes' trees, as the schema has them.
    pub(super) indexes: Vec<PageNo>,
}

impl Definition {
    /// The roots of all its trees.
    pub(super) fn roots(&self) -> impl Iterator<Item = PageNo> {
        let indexes = self.typed.as_ref().map_or(&[][..], |typed| &typed.indexes);
        std::iter::once(self.root).chain(indexes.iter().copied())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.root.0.to_le_bytes().to_vec();
        let Some(Typed { schema, indexes }) = &self.typed else {
            bytes.push(PLAIN);
            return bytes;
        };
        bytes.push(TYPED);
        bytes.extend_from_slice(&(indexes.len() as u16).to_le_bytes());
        indexes.iter().for_each(|root| bytes.extend_from_slice(&root.0.to_le_bytes()));
        bytes.extend_from_slice(&schema.to_bytes());
        bytes
    }

    /// Decodes a definition; the error describes the problem.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let short = || format!("it has {} bytes, which is too short", bytes.len());
        let (root, rest) = page_no(bytes).ok_or_else(short)?;
        let (&kind, rest) = rest.split_first().ok_or_else(short)?;
        let typed = match kind {
            PLAIN if rest.is_empty() => None,
            TYPED => Some(Typed::decode(rest).ok_or_else(short)??),
            kind => return Err(format!("it is of kind {kind}, and has {} bytes", bytes.len())),
        };
        Ok(Definition { root, typed })
    }
}

impl Typed {
    /// `None` if it is too short.
    fn decode(bytes: &[u8]) -> Option<Result<Self, String>> {
        let (count, mut rest) = bytes.split_first_chunk()?;
        let mut indexes = Vec::new();
        for _ in 0..u16::from_le_bytes(*count) {
            let (root, after) = page_no(rest)?;
            indexes.push(root);
            rest = after;
        }
        Some(match Schema::from_bytes(rest) {
            Ok(schema) if schema.indexes().len() == indexes.len() => Ok(Typed { schema, indexes }),
            Ok(schema) => {
                Err(format!("it has {} indexes, its schema {}", indexes.len(), schema.indexes().len()))
            }
            Err(error) => Err(error.to_string()),
        })
    }
}

fn page_no(bytes: &[u8]) -> Option<(PageNo, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((PageNo(u64::from_le_bytes(*number)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Column, ColumnType, Index};

    #[test]
    fn definitions_are_read_as_they_were_written_and_damage_is_noticed() {
        let plain = Definition { root: PageNo(7), typed: None }.encode();
        assert_eq!(plain.len(), 9);
        assert!(matches!(Definition::decode(&plain), Ok(Definition { root: PageNo(7), typed: None })));
        let schema = Schema::builder()
            .column(Column::new("id", ColumnType::U64))
            .primary_key(["id"])
            .index(Index::new("again", ["id"]))
            .build()
            .unwrap();
        let indexes = vec![PageNo(9)];
        let typed = Definition { root: PageNo(8), typed: Some(Typed { schema: schema.clone(), indexes }) };
        let bytes = typed.encode();
        let read = Definition::decode(&bytes).unwrap();
        assert_eq!(read.roots().collect::<Vec<_>>(), [PageNo(8), PageNo(9)]);
        assert_eq!(read.typed.unwrap().schema, schema);
        for length in 0..bytes.len() {
            assert!(length == 9 && bytes[8] == PLAIN || Definition::decode(&bytes[..length]).is_err());
        }
        let none = Typed { schema, indexes: Vec::new() };
        assert!(Definition::decode(&Definition { typed: Some(none), ..typed }.encode()).is_err());
    }
}
