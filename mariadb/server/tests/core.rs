//! The core of the plugin without a server: its own test programs (`plugin-core/tests/`), which need a C++ compiler.

use std::path::Path;
use std::process::Command;

#[test]
fn the_core_is_right_on_a_fake_server() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugin-core/tests/run");
    let output = Command::new(run).arg(env!("CARGO_TARGET_TMPDIR")).output().expect("bash");
    let (lines, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{lines}{errors}");
}
