//! `--dev --acl`: the first management token, made once and kept beside the state.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use controlplane_keyring::Keyring;
use controlplane_state::{AclToken, AclTokenKind, Command, Digest, Refusal, Sealed};
use protocol_model::UnixNanos;
use protocol_transport::files;
use uuid::Uuid;

use crate::cluster::{ChangeError, Cluster};
use crate::gateway;
use crate::keyring::seal_first_token;

/// The file below the data directory that holds the token's secret.
const TOKEN_FILE: &str = "acl-token";
/// How long the new token may take to be applied here.
const APPLIED_MAX: Duration = Duration::from_secs(5);

/// The secret of the management token of a development server. The first start makes the token and
/// writes the secret to `acl-token` below `data_dir`, mode 0600; later starts read it.
///
/// # Errors
/// If access control was bootstrapped with another token, or the file cannot be used.
pub async fn token(
    cluster: &Cluster,
    keyring: &Keyring,
    data_dir: &Path,
) -> anyhow::Result<String> {
    let path = data_dir.join(TOKEN_FILE);
    let kept = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let is_kept = kept.is_some();
    let secret = kept.unwrap_or_else(|| Uuid::new_v4().to_string());
    let digest = gateway::digest(secret.as_bytes());
    let snapshot = cluster.consistent().await?;
    if snapshot.token_by_secret(&digest).is_some() {
        return Ok(secret);
    }
    if !is_kept {
        // Before the token exists: a crash in between leaves a secret that is used next time.
        files::write_key(&path, &secret)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let accessor_id = Uuid::new_v4().to_string();
    let sealed = seal_first_token(keyring, &accessor_id, &secret).await;
    let command = Command::AclBootstrap {
        token: management(accessor_id, digest, sealed),
        reset_index: 0,
    };
    let changed = match cluster.change(command).await {
        Err(ChangeError::Refused(Refusal::AclBootstrapped { .. })) => {
            if !is_kept {
                let _ = std::fs::remove_file(&path);
            }
            anyhow::bail!(
                "access control of {} was bootstrapped with another token, and {} does not hold it: \
                 use that token without --acl, or begin with another --data-dir",
                data_dir.display(),
                path.display(),
            );
        }
        changed => changed?,
    };
    let deadline = tokio::time::Instant::now() + APPLIED_MAX;
    cluster.at_least(changed.index, deadline).await?;
    Ok(secret)
}

fn management(accessor_id: String, secret_hash: Digest, sealed: Option<Sealed>) -> AclToken {
    AclToken {
        accessor_id,
        secret_hash,
        sealed,
        name: "Bootstrap Token".to_owned(),
        kind: AclTokenKind::Management,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        expiration: None,
        ttl: None,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    }
}
