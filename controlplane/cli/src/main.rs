//! The `drover` command line.

fn main() -> std::process::ExitCode {
    controlplane_cli::main()
}
