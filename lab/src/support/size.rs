//! Sizes in bytes, as they are typed and shown.

use std::fmt;
use std::str::FromStr;

/// A number of bytes on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = bytes(text)?;
        let possible = flifo_engine::EngineConfig::BUFFER_POOL_BYTES;
        if !possible.contains(&bytes) {
            return Err(format!(
                "{} is outside {} to {}",
                Bytes(bytes),
                Bytes(*possible.start()),
                Bytes(*possible.end())
            ));
        }
        Ok(Bytes(bytes))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
        match units.iter().find(|(shift, _)| self.0 >> shift > 0) {
            Some((shift, unit)) => {
                let value = self.0 as f64 / (1u64 << shift) as f64;
                write!(f, "{}{unit}", (value * 10.0).round() / 10.0)
            }
            None => write!(f, "{}", self.0),
        }
    }
}

/// Parses a size: a number, or one with K, M, G or T (of 1024).
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size: use a number of bytes, or one with K, M or G, as in 512M");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!("64M".parse(), Ok(Bytes(64 << 20)));
        assert_eq!("1gib".parse(), Ok(Bytes(1 << 30)));
        assert_eq!("2097152".parse(), Ok(Bytes(2 << 20)));
        for wrong in ["", "G", "1X", "-1M", "1.5G", "0", "1K", "99999T", "99999999999999999999"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
        assert_eq!(Bytes(1536 << 20).to_string(), "1.5G");
        assert_eq!(Bytes(512).to_string(), "512");
    }
}
