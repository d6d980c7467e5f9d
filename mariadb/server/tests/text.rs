//! What the plugin reads from a statement's text, by its own table of texts (`mariadb/admission/tests/text.cc`).

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn texts_are_read_as_the_table_says() {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../admission");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("flifo-texts");
    let built = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "g++".into()))
        .args(["-std=gnu++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"])
        .args(["tests/text.cc", "src/text.cc", "src/lexer.cc", "-o"])
        .arg(&program)
        .current_dir(&plugin)
        .status()
        .expect("a C++ compiler");
    assert!(built.success());
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
