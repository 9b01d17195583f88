//! Compiles the program that is PID 1 of tasks with `init = true` (`src/sys/reaper/program.rs`):
//! freestanding and static, so that it runs in any root. The crate carries its bytes.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "src/sys/reaper/program.rs";

fn main() {
    println!("cargo:rerun-if-changed={PROGRAM}");
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}"));
    let output = PathBuf::from(variable("OUT_DIR")).join("reaper");
    let mut compiler = Command::new(variable("RUSTC"));
    compiler
        .args(["--edition=2024", "--crate-name=reaper", "--crate-type=bin"])
        .arg("--target")
        .arg(variable("TARGET"))
        // What needs a panic to be told has no place in it, and it fits two pages.
        .args(["-Cpanic=abort", "-Copt-level=s", "-Cstrip=symbols"])
        .args(["-Coverflow-checks=off", "-Cdebug-assertions=off"])
        .args(["-Crelocation-model=static", "-Clink-arg=-static"])
        .args(["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib"])
        // Its path is that of one machine; the bytes should not be.
        .arg("--remap-path-prefix")
        .arg(format!("{}=.", variable("CARGO_MANIFEST_DIR").display()))
        .arg("-Dwarnings");
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut flag = std::ffi::OsString::from("-Clinker=");
        flag.push(linker);
        compiler.arg(flag);
    }
    let status = compiler.arg("-o").arg(&output).arg(PROGRAM).status();
    let status = status.unwrap_or_else(|error| panic!("rustc cannot be started: {error}"));
    assert!(status.success(), "{PROGRAM} was not compiled: {status}");
}
