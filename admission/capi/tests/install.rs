//! `make install` installs everything a C program needs: the examples and test programs are built with the installed
//! files, static and shared, and run.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{capi, done, gcc, gxx, make};
use tempfile::TempDir;

/// Returns the prefix under which this test program has installed the library.
fn prefix() -> &'static Path {
    static DIR: OnceLock<TempDir> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        done(installer(dir.path(), None).arg("install"));
        dir
    })
    .path()
}

fn installer(prefix: &Path, destdir: Option<&Path>) -> Command {
    let mut make = make();
    make.arg("CAPI_PROFILE=dev").arg(format!("PREFIX={}", prefix.display()));
    make.args(destdir.map(|destdir| format!("DESTDIR={}", destdir.display())));
    make
}

/// Returns the fields of `flifo.pc` with variables expanded, for machines without pkg-config.
fn fields(pc: &Path) -> HashMap<String, String> {
    let text = fs::read_to_string(pc).expect("flifo.pc was installed");
    let (mut variables, mut fields) = (Vec::<(String, String)>::new(), HashMap::new());
    for line in text.lines() {
        let expand = |text: &str| {
            variables.iter().fold(text.trim().to_owned(), |text, (name, value)| {
                text.replace(&format!("${{{name}}}"), value)
            })
        };
        if let Some((name, value)) = line.split_once(':') {
            fields.insert(name.to_owned(), expand(value));
        } else if let Some((name, value)) = line.split_once('=') {
            let value = expand(value);
            variables.push((name.to_owned(), value));
        }
    }
    fields
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the output of pkg-config, if it is installed.
fn pkg_config(option: &str) -> Option<Vec<String>> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig")).args([option, "flifo"]);
    // Not installed: the flags are read from the file.
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(words(&String::from_utf8_lossy(&output.stdout)))
}

#[derive(Clone, Copy, PartialEq)]
enum Linked {
    Static,
    Shared,
}

/// Builds a program with the installed files, runs it and returns its output.
fn runs(mut compiler: Command, source: &Path, linked: Linked) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("program");
    let fields = fields(&prefix().join("lib/pkgconfig/flifo.pc"));
    let cflags = pkg_config("--cflags").unwrap_or_else(|| words(&fields["Cflags"]));
    compiler
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(cflags)
        .arg(source)
        .arg("-o")
        .arg(&program);
    match linked {
        Linked::Shared => {
            compiler.args(pkg_config("--libs").unwrap_or_else(|| words(&fields["Libs"])));
        }
        Linked::Static => {
            compiler.arg(prefix().join("lib/libflifo.a")).args(words(&fields["Libs.private"]));
        }
    }
    done(compiler.arg("-pthread"));
    let needs = String::from_utf8(done(Command::new("readelf").arg("-d").arg(&program)).stdout).unwrap();
    assert_eq!(needs.contains("[libflifo.so.3]"), linked == Linked::Shared, "{needs}");
    // A program that hangs fails.
    let mut run = Command::new("timeout");
    let output = done(run.arg("120").arg(&program).env("LD_LIBRARY_PATH", prefix().join("lib")));
    String::from_utf8(output.stdout).expect("it writes text")
}

fn c99() -> Command {
    let mut gcc = gcc();
    gcc.args(["-std=c99", "-pedantic", "-D_POSIX_C_SOURCE=200809L"]);
    gcc
}

#[test]
fn the_pool_example_runs_static_and_shared() {
    for linked in [Linked::Static, Linked::Shared] {
        let output = runs(c99(), &capi("examples/pool.c"), linked);
        assert!(
            output.contains("policy=quantum limit=4 running=0") && output.contains(" cancelled=1 "),
            "{output}"
        );
    }
}

#[test]
fn misuse_returns_an_error_static_and_shared() {
    for linked in [Linked::Static, Linked::Shared] {
        runs(c99(), &capi("tests/misuse.c"), linked);
    }
}

#[test]
fn threads_that_share_sessions_wrongly_do_no_harm() {
    runs(c99(), &capi("tests/stress.c"), Linked::Static);
}

#[test]
fn the_cxx_example_runs() {
    runs(gxx(), &capi("examples/guard.cc"), Linked::Shared);
}

#[test]
fn flifo_pc_reads_the_same_with_and_without_pkg_config() {
    let fields = fields(&prefix().join("lib/pkgconfig/flifo.pc"));
    assert_eq!(fields["Version"], env!("CARGO_PKG_VERSION"));
    assert!(!fields.values().any(|value| value.contains('@')), "{fields:?}");
    for (option, field) in [("--cflags", "Cflags"), ("--libs", "Libs"), ("--modversion", "Version")] {
        assert!(pkg_config(option).is_none_or(|found| found == words(&fields[field])), "{field}");
    }
}

#[test]
fn install_obeys_destdir_and_uninstall_removes_all() {
    fn files(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("it is a directory").map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => files(&entry.path(), found),
                false => found.push(entry.path()),
            }
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let prefix = Path::new("/opt/flifo");
    done(installer(prefix, Some(dir.path())).arg("install"));
    let installed = |path: &str| dir.path().join("opt/flifo").join(path);
    for path in ["include/flifo.h", "lib/libflifo.a", "lib/libflifo.so", "share/doc/flifo/c-api.md"] {
        assert!(installed(path).metadata().is_ok_and(|file| file.len() > 0), "{path}");
    }
    assert_eq!(fs::read_link(installed("lib/libflifo.so")).unwrap(), Path::new("libflifo.so.3"));
    let pc = fs::read_to_string(installed("lib/pkgconfig/flifo.pc")).unwrap();
    assert!(pc.starts_with("prefix=/opt/flifo\n"), "DESTDIR must not appear in flifo.pc: {pc}");
    let foreign = installed("share/doc/another");
    fs::write(&foreign, "foreign").unwrap();
    for _ in 0..2 {
        done(installer(prefix, Some(dir.path())).arg("uninstall"));
    }
    let mut left = Vec::new();
    files(dir.path(), &mut left);
    assert_eq!(left, [foreign]);
}

#[test]
fn the_shared_library_exports_the_functions_of_the_header_and_nothing_else() {
    let header = fs::read_to_string(capi("include/flifo.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("flifo_status_t ").or_else(|| line.strip_prefix("const char *"))?;
            line.split('(').next()
        })
        .collect();
    let mut nm = Command::new("nm");
    let listed = done(nm.args(["-D", "--defined-only"]).arg(prefix().join("lib/libflifo.so")));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut exported: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    declared.sort_unstable();
    exported.sort_unstable();
    assert_eq!(exported, declared);
}
