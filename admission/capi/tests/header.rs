//! `include/flifo.h` matches the sources, and C and C++ compilers accept it without a warning.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{capi, done, gcc, gxx};

/// Generates the header from the sources.
fn generated() -> String {
    let config = cbindgen::Config::from_file(capi("cbindgen.toml")).expect("cbindgen.toml is readable");
    let bindings = cbindgen::Builder::new().with_crate(capi("")).with_config(config).generate();
    let mut header = Vec::new();
    bindings.expect("cbindgen understands the sources").write(&mut header);
    // Rust's heading for the rules of an unsafe function; the sentences below it hold for C, too.
    String::from_utf8(header).expect("the header is text").replace("# Safety", "Rules:")
}

/// `make header` sets FLIFO_WRITE_HEADER.
#[test]
fn the_header_matches_the_sources() {
    let path = capi("include/flifo.h");
    let fresh = generated();
    if std::env::var_os("FLIFO_WRITE_HEADER").is_some() {
        fs::write(&path, fresh).expect("the header can be written");
        return;
    }
    let stands = fs::read_to_string(&path).unwrap_or_default();
    let differs = stands.lines().zip(fresh.lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or(stands.lines().count().min(fresh.lines().count())) + 1;
    assert!(
        stands == fresh,
        "admission/capi/include/flifo.h does not match the sources from line {line} on: run `make header` and \
         review the difference"
    );
}

/// Comments name only items of the header.
#[test]
fn every_name_in_a_comment_exists() {
    let header = fs::read_to_string(capi("include/flifo.h")).expect("the header is there");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = |text: &str| -> BTreeSet<String> {
        let ours = |word: &&str| word.starts_with("FLIFO_") || word.starts_with("flifo_");
        text.split(|c| !is_part(c)).filter(ours).map(str::to_owned).collect()
    };
    let (mut code, mut comments) = (String::new(), String::new());
    for (n, part) in header.split("/*").enumerate() {
        let (comment, rest) =
            if n == 0 { ("", part) } else { part.split_once("*/").expect("a comment ends") };
        comments += comment;
        code += rest;
    }
    let unknown: Vec<String> = names(&comments).difference(&names(&code)).cloned().collect();
    assert_eq!(unknown, [""; 0]);
}

/// Every function, type, constant, field and enumerator has a comment.
#[test]
fn every_item_of_the_header_is_documented() {
    let header = fs::read_to_string(capi("include/flifo.h")).expect("the header is there");
    let lines: Vec<&str> = header.lines().collect();
    let mut items = 0;
    for (n, line) in lines.iter().enumerate().skip(1) {
        let text = line.trim_start();
        let is_field = line.starts_with("  ") && !line.starts_with("   ") && text.ends_with(';');
        let is_enumerator = text.starts_with("FLIFO_") && text.contains(" = ");
        let begins = ["typedef ", "#define FLIFO_", "flifo_status_t flifo_", "const char *flifo_"];
        let is_item = begins.iter().any(|begin| line.starts_with(begin)) && !line.ends_with("FLIFO_H");
        if is_field || is_enumerator || is_item {
            items += 1;
            assert!(lines[n - 1].trim_end().ends_with("*/"), "line {}: `{line}` has no comment", n + 1);
        }
    }
    assert!(items > 100, "only {items} items: this test misses some");
}

#[test]
fn c_and_cxx_compilers_accept_the_header_without_a_warning() {
    let dir = tempfile::tempdir().expect("a directory");
    let (c, cxx) = (dir.path().join("a.c"), dir.path().join("a.cc"));
    // Included first and twice: the header must not depend on another.
    let source = "#include <flifo.h>\n#include <flifo.h>\nint x = FLIFO_OK;\n";
    fs::write(&c, source).unwrap();
    fs::write(&cxx, source).unwrap();
    let compile = |mut compiler: Command, std: &str, source: &Path| {
        compiler.arg(format!("-std={std}")).args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-fsyntax-only",
        ]);
        done(compiler.arg("-I").arg(capi("include")).arg(source));
    };
    ["c99", "c11", "gnu17"].into_iter().for_each(|std| compile(gcc(), std, &c));
    ["c++11", "gnu++17", "c++20"].into_iter().for_each(|std| compile(gxx(), std, &cxx));
}

#[test]
fn the_soname_is_the_version_of_the_interface() {
    let build = fs::read_to_string(capi("build.rs")).unwrap();
    assert!(build.contains(&format!("-soname,libflifo.so.{}\"", flifo_c::FLIFO_ABI_VERSION)));
}
