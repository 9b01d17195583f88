//! The places of key-encryption keys: the blocks `keyring`.

use std::path::{Path, PathBuf};

use controlplane_keyring::{KekSource, WrappingKek};

use super::ConfigError;
use super::build::value;
use super::file::ConfigFile;

/// The variable in which systemd names the directory of a service's credentials.
const CREDENTIALS_DIRECTORY: &str = "CREDENTIALS_DIRECTORY";

/// The directory of `keyring "file"`.
///
/// # Errors
/// Where it is not absolute.
pub(super) fn directory(file: &ConfigFile, data_dir: &Path) -> Result<PathBuf, ConfigError> {
    match file.keyring.file.path.as_deref() {
        None => Ok(data_dir.join("keyring")),
        Some(path) if path.is_absolute() => Ok(path.to_owned()),
        Some(path) => {
            let message = format!("{:?} is not absolute", path.display().to_string());
            Err(value("keyring.file.path", message))
        }
    }
}

/// The sources beside the files, and the KEK that wraps root keys.
///
/// # Errors
/// Where a name cannot be one, or two KEKs are active.
pub(super) fn sources(file: &ConfigFile) -> Result<(Vec<KekSource>, WrappingKek), ConfigError> {
    let keyring = &file.keyring;
    let mut sources = Vec::new();
    let mut active = Vec::new();
    if let Some(text) = &keyring.file.active_kek {
        let id = text.parse();
        let id =
            id.map_err(|error| value("keyring.file.active_kek", format!("{text:?}: {error}")))?;
        active.push(WrappingKek::File(id));
    }
    if let Some(block) = &keyring.credential {
        if block.active {
            active.push(WrappingKek::Source(sources.len()));
        }
        sources.push(credential(block.name.as_deref().unwrap_or("drover-kek"))?);
    }
    if let Some(block) = &keyring.environment {
        if block.active {
            active.push(WrappingKek::Source(sources.len()));
        }
        let variable = block.variable.as_deref().unwrap_or("DROVER_KEK");
        if variable.is_empty() || variable.contains(['=', '\0']) {
            let message = format!("{variable:?} is no name of a variable");
            return Err(value("keyring.environment.variable", message));
        }
        sources.push(KekSource::Environment(variable.to_owned()));
    }
    let wrapping = active.pop().unwrap_or_default();
    if !active.is_empty() {
        let message = "several blocks have an active key: one key wraps all root keys";
        return Err(value("keyring", message));
    }
    Ok((sources, wrapping))
}

fn credential(name: &str) -> Result<KekSource, ConfigError> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        let message = format!("{name:?} is no name of a credential");
        return Err(value("keyring.credential.name", message));
    }
    Ok(KekSource::Credential {
        directory: std::env::var_os(CREDENTIALS_DIRECTORY).map(PathBuf::from),
        name: name.to_owned(),
    })
}
