//! Sets the shared library's soname and how it is loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number is FLIFO_ABI_VERSION; a test compares them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libflifo.so.3");
    // A scheduler's watchdog thread may still run for a moment after the last handle is freed; unloading its code would
    // crash the process.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
