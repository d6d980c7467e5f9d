//! Dates in UTC, from the system's clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// The date and time in UTC, as `2026-01-31T12:00:00Z`.
pub fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// Days to a date by the Gregorian calendar's cycle of 400 years (146,097 days), years begun in March.
fn utc(seconds_since_1970: i64) -> String {
    let (days, second) = (seconds_since_1970.div_euclid(86_400), seconds_since_1970.rem_euclid(86_400));
    let since_march_of_0 = days + 719_468;
    let (era, day_of_era) = (since_march_of_0.div_euclid(146_097), since_march_of_0.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
