//! Where the programs under test are. They are built when they are missing, never when they are
//! old: `hack/test` builds them before it runs the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use parking_lot::Mutex;

/// Names the folder of the programs, whatever built them.
const FOLDER_VARIABLE: &str = "DROVER_BIN_DIR";

/// A program under test, with the package that builds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `controlplane`.
    Controlplane,
    /// `noded`.
    Noded,
    /// `noded-jail`, which handles foreign bytes for noded.
    NodedJail,
    /// `noded-keeper`, which is keeper and pump.
    NodedKeeper,
    /// `drover`, the command line.
    Drover,
    /// `nodesim`: many nodes without hosts.
    Nodesim,
}

impl Program {
    /// Its file name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Controlplane => "controlplane",
            Self::Noded => "noded",
            Self::NodedJail => "noded-jail",
            Self::NodedKeeper => "noded-keeper",
            Self::Drover => "drover",
            Self::Nodesim => "nodesim",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Controlplane => "controlplane-server",
            Self::Noded => "noded-daemon",
            Self::NodedJail => "noded-jail",
            Self::NodedKeeper => "noded-keeper",
            Self::Drover => "controlplane-cli",
            Self::Nodesim => "hack-nodesim",
        }
    }

    /// Its path in `given`, or else where the variable says, or else beside the test that runs:
    /// there it is built if it is missing.
    ///
    /// # Errors
    /// When it is not there and cannot be built; the error says what to run.
    pub fn path(self, given: Option<&Path>) -> anyhow::Result<PathBuf> {
        // One build at a time: the tests of a binary run in parallel.
        static BUILDING: Mutex<()> = Mutex::new(());
        let _building = BUILDING.lock();
        let named = || std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
        let given = given.map(Path::to_owned).or_else(named);
        let folder = match &given {
            Some(folder) => folder.clone(),
            None => beside_this_test()?,
        };
        let path = folder.join(self.name());
        if !path.is_file() {
            ensure!(
                given.is_none(),
                "{} is not there; its folder was named, by {FOLDER_VARIABLE} or an argument",
                path.display()
            );
            self.build(&folder)?;
        }
        ensure!(path.is_file(), "{} is still not there", path.display());
        Ok(path)
    }

    fn build(self, folder: &Path) -> anyhow::Result<()> {
        let target = folder.parent().context("the folder of programs is /")?;
        let mut command = Command::new(env!("CARGO"));
        command
            .args(["build", "--locked", "-p", self.package()])
            .args(["--bin", self.name()])
            .env("CARGO_TARGET_DIR", target)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        if folder.ends_with("release") {
            command.arg("--release");
        }
        let status = command.status().context("cannot run cargo")?;
        ensure!(
            status.success(),
            "{} cannot be built; see `cargo build -p {} --bin {}`",
            self.name(),
            self.package(),
            self.name()
        );
        Ok(())
    }
}

/// `target/PROFILE`, seen from `target/PROFILE/deps/TEST`.
fn beside_this_test() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe().context("cannot find this program")?;
    let deps = test.parent().context("this program is in no folder")?;
    let profile = deps
        .parent()
        .context("this program's folder is in no folder")?;
    Ok(profile.to_owned())
}
