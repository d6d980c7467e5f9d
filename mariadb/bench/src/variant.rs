//! A variant: a way to run the server, with a name.

use std::str::FromStr;

use flifo_mariadb::Plugin;
use serde::Serialize;

use crate::product::{Launch, Product};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A thread per connection, without the plugin.
    Stock,
    /// The same with the plugin loaded.
    Plugin,
    /// The server's own pool of threads.
    Pool,
}

/// `NAME=KIND[:setting=value,..]`, or a kind alone for its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variant {
    pub name: String,
    pub kind: Kind,
    /// Options of the server, without dashes.
    pub settings: Vec<(String, String)>,
}

impl Variant {
    /// A thread per connection, and nothing else.
    pub(crate) fn stock() -> Variant {
        Variant { name: "stock".into(), kind: Kind::Stock, settings: Vec::new() }
    }

    /// Whether a running server can become it: see [`Running::turn_into`](crate::running::Running::turn_into).
    pub(crate) fn can_be_turned_into(&self) -> bool {
        match self.kind {
            Kind::Stock => self.settings.is_empty(),
            Kind::Plugin => self.settings.iter().all(|(name, _)| name.starts_with("flifo_")),
            Kind::Pool => false,
        }
    }

    /// The server it runs, on top of what all have.
    pub(crate) fn launch(&self, product: &Product, common: Launch) -> Launch {
        let launch = match self.kind {
            Kind::Stock => common,
            Kind::Plugin => common.plugin(Plugin::Loaded),
            Kind::Pool => common.set_all(product.pool_options),
        };
        self.settings.iter().fold(launch, |launch, (name, value)| launch.set(name, value))
    }

    pub fn described(&self) -> String {
        let kind = match self.kind {
            Kind::Stock => "a thread per connection, without the plugin",
            Kind::Plugin => "a thread per connection, with the plugin",
            Kind::Pool => "pool of threads, without the plugin",
        };
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        match settings.as_slice() {
            [] => kind.to_owned(),
            _ => format!("{kind}, {}", settings.join(", ")),
        }
    }
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (head, settings) = text.split_once(':').unwrap_or((text, ""));
        let (name, kind) = head.split_once('=').unwrap_or((head, head));
        let kind = match kind {
            "stock" => Kind::Stock,
            "plugin" => Kind::Plugin,
            "pool" => Kind::Pool,
            other => return Err(format!("{other:?} is none of stock, plugin, pool")),
        };
        if name.is_empty() || name.contains(['|', ',', ' ']) {
            return Err("a variant needs a name without spaces, commas and bars".into());
        }
        Ok(Variant { name: name.to_owned(), kind, settings: parse_settings(settings)? })
    }
}

/// A piece without `=` belongs to the value before it, which is a list.
fn parse_settings(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut settings: Vec<(String, String)> = Vec::new();
    for piece in text.split(',').filter(|piece| !piece.is_empty()) {
        match (piece.split_once('='), settings.last_mut()) {
            (Some((name, value)), _) => settings.push((name.to_owned(), value.to_owned())),
            (None, Some((_, list))) => *list = format!("{list},{piece}"),
            (None, None) => return Err(format!("{piece:?} is no setting: write name=value")),
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_names_and_settings() {
        let four: Variant = "four=plugin:flifo_thread_concurrency=4,flifo_policy=fifo".parse().unwrap();
        assert_eq!((four.name.as_str(), four.kind), ("four", Kind::Plugin));
        assert_eq!(
            four.described(),
            "a thread per connection, with the plugin, flifo_thread_concurrency=4, flifo_policy=fifo"
        );
        let pool: Variant = "pool".parse().unwrap();
        assert_eq!((pool.name.as_str(), pool.kind, pool.settings.len()), ("pool", Kind::Pool, 0));
    }

    #[test]
    fn a_value_may_be_a_list() {
        let masked: Variant = "m=plugin:sql_mode=ANSI,STRICT_ALL_TABLES,flifo_io_depth=8".parse().unwrap();
        assert_eq!(masked.settings[0], ("sql_mode".into(), "ANSI,STRICT_ALL_TABLES".into()));
        assert_eq!(masked.settings[1], ("flifo_io_depth".into(), "8".into()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("fast", "\"fast\" is none of stock, plugin, pool"),
            ("x=plugin:4", "\"4\" is no setting: write name=value"),
            ("=stock", "a variant needs a name without spaces, commas and bars"),
        ] {
            assert_eq!(text.parse::<Variant>(), Err(said.into()));
        }
    }
}
