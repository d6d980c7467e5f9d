//! The command `flifo`.
fn main() {}
