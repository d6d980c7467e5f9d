//! Where `--record` writes: `figures/NAME.json` of the repository, unless the user names another file or folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use crate::{Error, Record, Result};

/// The folder of all records, in the repository's root.
pub const FOLDER: &str = "figures";

/// The value of `--record`: nothing, a file, or a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct To(Option<PathBuf>);

impl FromStr for To {
    type Err = std::convert::Infallible;

    /// An empty text is the flag without a value.
    fn from_str(text: &str) -> std::result::Result<To, Self::Err> {
        Ok(To((!text.is_empty()).then(|| PathBuf::from(text))))
    }
}

/// The file of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    file: PathBuf,
    bench: String,
}

impl Place {
    /// The file of a bench. Fails if it cannot be written, so call it before measuring.
    pub fn new(to: &To, bench: &str) -> Result<Place> {
        let default = format!("{bench}.json");
        let file = match &to.0 {
            None => root()?.join(FOLDER).join(default),
            Some(folder) if folder.is_dir() => folder.join(default),
            Some(file) => file.clone(),
        };
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(Error::Place(format!(
                "cannot record in {}: there is no folder {}; create it, or name another file",
                file.display(),
                folder.display()
            )));
        }
        // A full run is too long to find out at its end.
        let probe = folder.join(format!(".flifo-{}.tmp", std::process::id()));
        std::fs::write(&probe, "").and_then(|()| std::fs::remove_file(&probe)).map_err(|error| {
            Error::Place(format!("cannot record in {}: {error}; name another folder", file.display()))
        })?;
        match (file.file_stem().and_then(|stem| stem.to_str()), file.extension()) {
            (Some(stem), Some(extension)) if extension == "json" => {
                Ok(Place { bench: stem.to_owned(), file: file.clone() })
            }
            _ => Err(Error::Place(format!(
                "cannot record in {}: name a file that ends in .json",
                file.display()
            ))),
        }
    }

    /// The place that a program's arguments name with `--record` or `--record=FILE`, for programs without a parser of
    /// arguments; `None` without the flag.
    pub fn from_args(bench: &str) -> Result<Option<Place>> {
        let to = std::env::args().find_map(|argument| match argument.split_once('=') {
            None if argument == "--record" => Some(To::default()),
            Some(("--record", value)) => Some(To(Some(value.into()))),
            _ => None,
        });
        to.map(|to| Place::new(&to, bench)).transpose()
    }

    /// The record's name.
    pub fn bench(&self) -> &str {
        &self.bench
    }

    /// Writes the record under the file's name. Returns what to tell the user.
    pub fn write(&self, mut record: Record) -> Result<String> {
        record.bench.clone_from(&self.bench);
        record.write(&self.file)?;
        Ok(format!("recorded in {}; 'flifo figures' renders the pages that show it", self.file.display()))
    }
}

/// The repository's root: the nearest folder from here upwards with a workspace and a folder of records.
pub fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let is_root = |folder: &&Path| folder.join(FOLDER).is_dir() && folder.join("Cargo.toml").is_file();
    here.ancestors().find(is_root).map(Path::to_owned).ok_or_else(|| {
        Error::Place(format!(
            "no sources of flifo in {} or above it: run this in the repository, or name a file or a folder",
            here.display()
        ))
    })
}

/// The commit of the current folder's sources, with `-dirty` if files differ from it; `None` without git.
pub(crate) fn commit() -> Option<String> {
    let arguments = ["describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"];
    let output =
        Command::new("git").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_a_folder_or_the_repository() {
        let temp = tempfile::tempdir().unwrap();
        let to = |text: &str| text.parse::<To>().unwrap();
        let folder = temp.path().to_str().unwrap();
        let place = Place::new(&to(folder), "sweep").unwrap();
        assert_eq!((place.bench(), place.file.clone()), ("sweep", temp.path().join("sweep.json")));
        let place = Place::new(&to(&format!("{folder}/other.json")), "sweep").unwrap();
        assert_eq!(place.bench(), "other");
        // The tests run in the repository.
        let place = Place::new(&to(""), "sweep").unwrap();
        assert!(place.file.ends_with("figures/sweep.json"), "{place:?}");
        for (wrong, problem) in [("/no/such/folder/x.json", "there is no folder"), ("x.txt", "ends in .json")]
        {
            let error = Place::new(&to(wrong), "sweep").unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn the_file_s_name_is_the_record_s() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("other.json");
        let place = Place::new(&file.to_str().unwrap().parse().unwrap(), "sweep").unwrap();
        let said = place.write(Record::begin("sweep", "flifo sweep", crate::Scale::Connections)).unwrap();
        assert!(said.contains("other.json") && said.contains("flifo figures"), "{said}");
        assert_eq!(Record::read(&file).unwrap().bench, "other");
    }
}
