//! Readings of the embedded engine's counters for a time series.

use flifo_engine::EngineStats;

use crate::results::series::Reading;

/// The engine's counters at the moment of `stats`.
pub fn reading(stats: &EngineStats) -> Reading {
    stats.counters().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use flifo_engine::{Database, EngineConfig};

    use super::*;

    fn database(dir: &std::path::Path) -> Database {
        let config = EngineConfig {
            buffer_pool_bytes: 4 << 20,
            buffer_pool_instances: 1,
            data_files: 1,
            rollback_segments: 2,
            ..EngineConfig::default()
        };
        Database::create(dir.join("db"), config).unwrap()
    }

    #[test]
    fn the_engine_has_every_counter_of_a_point() {
        let temp = tempfile::tempdir().unwrap();
        let database = database(temp.path());
        let now = reading(&database.stats());
        let point = serde_json::to_value(now.since(&now)).unwrap();
        let missing: Vec<_> = point
            .as_object()
            .unwrap()
            .iter()
            .filter(|(_, value)| value.is_null())
            .map(|(key, _)| key)
            .collect();
        assert_eq!(missing, ["transactions"], "counted by clients alone");
        database.close().unwrap();
    }
}
