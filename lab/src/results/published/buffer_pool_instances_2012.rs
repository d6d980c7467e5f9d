//! Instances of the buffer pool, and the flush that takes them one after another.

use serde::Deserialize;

use super::{FIGURES, PublishedError, Title, check_claims, study};

const NAME: &str = "buffer-pool-instances-2012";

/// "MySQL Performance: InnoDB Buffer Pool Instances in 5.6", 2012.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferPoolInstances2012 {
    pub title: Title,
    pub workload: String,
    pub instances: Vec<u32>,
    pub redo_gb: Vec<u32>,
    pub claims: Vec<String>,
    /// What the study wishes for.
    pub wanted: Vec<String>,
}

impl BufferPoolInstances2012 {
    /// The figures included in the program.
    pub fn load() -> Self {
        Self::parse(FIGURES).expect("a test reads the file that was compiled in")
    }

    fn parse(text: &str) -> Result<Self, PublishedError> {
        let study: BufferPoolInstances2012 = study(text, NAME)?;
        check_claims(NAME, &study.claims, 5)?;
        Ok(study)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_carried_is_sound() {
        let study = BufferPoolInstances2012::parse(FIGURES).unwrap();
        assert_eq!((study.instances, study.redo_gb), (vec![1, 2, 4, 8], vec![3, 8]));
        let text = FIGURES.replacen("instances = [", "instanzen = [", 1);
        assert!(BufferPoolInstances2012::parse(&text).is_err());
    }
}
