//! The pages with figures: README.md and docs/**/*.md, their blocks, and the pictures beside them.
//!
//! A block is everything between a line `<!-- figures:NAME -->` and the next line `<!-- /figures -->`. What stands in
//! code fences is no block.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::blocks::{self, PICTURES};
use crate::place::FOLDER;
use crate::{Error, Record, Result};

const BEGIN: &str = "<!-- figures:";
const BEGIN_END: &str = " -->";
const END: &str = "<!-- /figures -->";

/// The records of a repository, by name.
#[derive(Debug, Default)]
pub struct Records(BTreeMap<String, Record>);

impl Records {
    /// Reads every file of the folder `figures`. The error names the file.
    pub fn read(root: &Path) -> Result<Records> {
        let folder = root.join(FOLDER);
        let mut records = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(Error::read(&folder))? {
            let path = entry.map_err(Error::read(&folder))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let record = Record::read(&path)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if record.bench != name {
                let problem = format!("its bench is {:?}, and a file has its bench's name", record.bench);
                return Err(Error::Record { path, problem });
            }
            records.insert(name, record);
        }
        Ok(Records(records))
    }

    /// The record of this name. The error says how to make it.
    pub fn get(&self, name: &str) -> std::result::Result<&Record, String> {
        self.0
            .get(name)
            .ok_or_else(|| format!("there is no figures/{name}.json; record it with the bench's --record"))
    }
}

/// Something that differs from what its records say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The page or picture.
    pub path: PathBuf,
    /// The block's name and line; `None` for a picture.
    pub block: Option<(String, usize)>,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.block {
            Some((name, line)) => write!(f, "{}:{line}: the block figures:{name}", self.path.display()),
            None => write!(f, "{}: the picture", self.path.display()),
        }
    }
}

/// All blocks and pictures that differ from the records. Nothing is written.
pub fn check(root: &Path) -> Result<Vec<Stale>> {
    each(root, &mut |_, _| Ok(()))
}

/// Renders all blocks and pictures, and returns the stale ones.
pub fn update(root: &Path) -> Result<Vec<Stale>> {
    each(root, &mut |path, text| fs::write(path, text).map_err(Error::write(path)))
}

fn each(root: &Path, write: &mut dyn FnMut(&Path, &str) -> Result<()>) -> Result<Vec<Stale>> {
    let records = Records::read(root)?;
    let mut stale = Vec::new();
    // Everything is rendered before anything is written.
    let mut fresh: Vec<(PathBuf, String)> = Vec::new();
    for path in pages(root)? {
        let full = root.join(&path);
        let text = fs::read_to_string(&full).map_err(Error::read(&full))?;
        let (rendered, mut found) = page(&path, &text, &|name| blocks::render(name, &records))?;
        stale.append(&mut found);
        if rendered != text {
            fresh.push((full, rendered));
        }
    }
    for picture in &PICTURES {
        let path = root.join(picture.path);
        let drawn = records.get(picture.record).and_then(|record| {
            (picture.draw)(record).ok_or_else(|| format!("figures/{}.json has no row for it", picture.record))
        });
        let drawn = drawn.map_err(|problem| Error::Record { path: path.clone(), problem })?;
        if fs::read_to_string(&path).unwrap_or_default() != drawn {
            stale.push(Stale { path: picture.path.into(), block: None });
            fresh.push((path, drawn));
        }
    }
    fresh.iter().try_for_each(|(path, text)| write(path, text))?;
    Ok(stale)
}

/// README.md and all pages under docs, relative to the root.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages = vec![PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        let full = root.join(&folder);
        for entry in fs::read_dir(&full).map_err(Error::read(&full))? {
            let entry = entry.map_err(Error::read(&full))?;
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// Renders a block by its name; the error is a problem in words.
type Render<'a> = dyn Fn(&str) -> std::result::Result<String, String> + 'a;

/// A page with fresh blocks, and the blocks that were stale.
fn page(path: &Path, text: &str, render: &Render<'_>) -> Result<(String, Vec<Stale>)> {
    let wrong =
        |line: usize, problem: String| Error::Block { path: path.to_owned(), line: line + 1, problem };
    let (mut rendered, mut stale, mut is_code) = (String::new(), Vec::new(), false);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_end();
        rendered += lines[at];
        at += 1;
        is_code ^= line.starts_with("```");
        if is_code {
            continue;
        }
        if line == END {
            return Err(wrong(at - 1, format!("`{END}` without `{BEGIN}NAME{BEGIN_END}` above it")));
        }
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(BEGIN_END)) else {
            continue;
        };
        let first = at - 1;
        let body = &lines[at..];
        let length = body.iter().position(|line| line.trim_end() == END);
        let length = length.filter(|length| !body[..*length].iter().any(|line| line.starts_with(BEGIN)));
        let length = length.ok_or_else(|| {
            wrong(first, format!("the block figures:{name} has no end; write `{END}` below it"))
        })?;
        let fresh = render(name).map_err(|problem| wrong(first, problem))?;
        if body[..length].concat() != fresh {
            stale.push(Stale { path: path.to_owned(), block: Some((name.to_owned(), first + 1)) });
        }
        rendered += &fresh;
        at += length;
        rendered += lines[at];
        at += 1;
    }
    Ok((rendered, stale))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str) -> Result<(String, Vec<Stale>)> {
        page(Path::new("docs/x.md"), text, &|name| match name {
            "a" => Ok("fresh\n".into()),
            other => Err(format!("no such block: {other}")),
        })
    }

    fn problem(text: &str) -> String {
        rendered(text).unwrap_err().to_string()
    }

    #[test]
    fn only_blocks_change() {
        let text = "before\n<!-- figures:a -->\nold\n<!-- /figures -->\nafter";
        let (fresh, stale) = rendered(text).unwrap();
        assert_eq!(fresh, "before\n<!-- figures:a -->\nfresh\n<!-- /figures -->\nafter");
        assert_eq!(stale.len(), 1);
        assert_eq!(stale[0].to_string(), "docs/x.md:2: the block figures:a");
        let (again, stale) = rendered(&fresh).unwrap();
        assert_eq!((again, stale.len()), (fresh, 0));
    }

    #[test]
    fn code_is_no_block() {
        let text = "```text\n<!-- figures:b -->\n<!-- /figures -->\n```\n";
        assert_eq!(rendered(text).unwrap(), (text.to_owned(), Vec::new()));
    }

    #[test]
    fn wrong_blocks_are_named_with_file_and_line() {
        let unknown = "x\n\n<!-- figures:b -->\n<!-- /figures -->\n";
        assert_eq!(problem(unknown), "docs/x.md:3: no such block: b");
        let open = "<!-- figures:a -->\n<!-- figures:a -->\n<!-- /figures -->\n";
        assert!(
            problem(open).starts_with("docs/x.md:1: the block figures:a has no end"),
            "{}",
            problem(open)
        );
        assert!(problem("<!-- figures:a -->\n").contains("has no end"));
        assert!(problem("x\n<!-- /figures -->\n").starts_with("docs/x.md:2: `<!-- /figures -->` without"));
    }
}
