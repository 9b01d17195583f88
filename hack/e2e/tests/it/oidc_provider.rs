//! Logins through an OpenID provider that is not ours: npm's `oidc-provider`, on loopback.
//!
//! ```text
//!  drover login --auth-url--> server --discovery, keys, token, user info--> provider (node)
//!       │ address                                                               ▲
//!       └──► browser (node): redirects, cookies, the provider's forms ──────────┘
//!                 └──► /oidc/callback of drover login
//! ```
//!
//! npm fetches the provider into a temporary folder when the test runs. It signs with an RSA key of
//! its key set, and its claims beside `sub` are in the user info alone.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use anyhow::{Context, ensure};
use hack_cluster::{Cluster, Ports, Settings};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::access::Shell;

/// The provider's release: the newest that runs with the Node.js of Debian 12.
const PACKAGE: &str = "oidc-provider@8.8.1";
const MANAGER: &str = "11111111-2222-3333-4444-555555555555";
/// As `clients/oidc/provider.mjs` has it.
const CLIENT_SECRET: &str = "planted secret, with : and %";

fn script(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/oidc");
    folder.join(name)
}

/// Installs the provider into `folder`; answers why not where this host cannot.
fn install(folder: &Path) -> Option<String> {
    if let Err(error) = Command::new("node").arg("--version").output() {
        return Some(format!("node does not start: {error}"));
    }
    let npm = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
        .arg("--prefix")
        .arg(folder)
        .arg(PACKAGE)
        .output();
    match npm {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(format!("npm does not start: {error}")),
    }
}

/// A private authority and a certificate of 127.0.0.1, in files.
struct Certificate {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn make(folder: &Path) -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A certificate whose issuer has its own name is taken for a self-signed one.
        let name = "authority of a provider";
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let authority = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let own = CertificateParams::new(["127.0.0.1".to_owned()])?;
        let certificate = own.signed_by(&key, &issuer)?.pem();
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).map(|()| path)
        };
        Ok(Self {
            authority: write("provider-ca.pem", &authority)?,
            certificate: write("provider.pem", &certificate)?,
            key: write("provider-key.pem", &key.serialize_pem())?,
        })
    }
}

/// The provider's process; it ends with this value.
struct Provider {
    process: Child,
    issuer: String,
    /// It ends when it prints a warning and this is closed.
    _output: BufReader<ChildStdout>,
}

impl Provider {
    fn start(
        modules: &Path,
        redirect_uri: &str,
        certificate: Option<&Certificate>,
    ) -> anyhow::Result<Self> {
        let files = certificate.map(|it| [&it.certificate, &it.key]);
        let mut process = Command::new("node")
            .arg(script("provider.mjs"))
            .arg(modules)
            .arg(redirect_uri)
            .args(files.into_iter().flatten())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = process.stdout.take().context("an output")?;
        let mut output = BufReader::new(output);
        let mut issuer = String::new();
        output.read_line(&mut issuer)?;
        let issuer = issuer.trim_end().to_owned();
        ensure!(!issuer.is_empty(), "the provider does not start");
        Ok(Self {
            process,
            issuer,
            _output: output,
        })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `drover login`, with the browser of `user`; the output is that of `drover`.
fn log_in(
    shell: &Shell<'_>,
    method: &str,
    redirect_port: u16,
    (user, certificate): (&str, Option<&Certificate>),
) -> anyhow::Result<Output> {
    let address = format!("127.0.0.1:{redirect_port}");
    let arguments = ["login", "-json", "-method", method, "-oidc-callback-addr"];
    let mut login = shell
        .command(&[arguments.as_slice(), &[&address]].concat())?
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let complaints = login.stderr.take().context("a standard error")?;
    let mut complaints = BufReader::new(complaints);
    let (mut words, mut line) = (String::new(), String::new());
    while complaints.read_line(&mut line)? > 0 {
        words.push_str(&line);
        let url = std::mem::take(&mut line);
        let url = url.trim();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            continue;
        }
        let mut browser = Command::new("node");
        browser.arg(script("browser.mjs")).args([url, user]);
        if let Some(certificate) = certificate {
            browser.env("NODE_EXTRA_CA_CERTS", &certificate.authority);
        }
        let browsed = browser.output()?;
        let error = String::from_utf8_lossy(&browsed.stderr);
        if !browsed.status.success() {
            let _ = login.kill();
            let _ = login.wait();
            anyhow::bail!("the browser of {user}: {error}");
        }
    }
    let mut output = login.wait_with_output()?;
    output.stderr = words.into_bytes();
    Ok(output)
}

/// Creates a method for the provider, and a rule for the group `readers`.
fn create_method(
    shell: &Shell<'_>,
    name: &str,
    provider: &Provider,
    (redirect_uri, authorities): (&str, &[String]),
) -> anyhow::Result<()> {
    let config = json!({
        "OIDCDiscoveryURL": provider.issuer,
        "OIDCClientID": "drover",
        "OIDCClientSecret": CLIENT_SECRET,
        "OIDCScopes": ["profile", "groups"],
        "BoundAudiences": ["drover"],
        "AllowedRedirectURIs": [redirect_uri],
        "DiscoveryCaPem": authorities,
        "ClaimMappings": {"name": "user"},
        "ListClaimMappings": {"groups": "groups"},
    });
    let config = config.to_string();
    let create = ["acl", "auth-method", "create", "-type", "OIDC"];
    let kind = ["-token-locality", "local", "-max-token-ttl", "1h"];
    let named = ["-name", name, "-token-name-format", "sso-${value.user}"];
    let config = ["-config", &config];
    shell.works(&[create.as_slice(), &kind, &named, &config].concat())?;
    let create = ["acl", "binding-rule", "create", "-auth-method", name];
    let binds = ["-bind-type", "policy", "-bind-name", "readers"];
    let selector = ["-selector", "\"readers\" in list.groups"];
    shell.works(&[create.as_slice(), &binds, &selector].concat())?;
    Ok(())
}

fn logins_work(
    shell: &Shell<'_>,
    modules: &Path,
    certificate: Option<&Certificate>,
) -> anyhow::Result<()> {
    let port = Ports::free()?.http;
    let redirect_uri = format!("http://127.0.0.1:{port}/oidc/callback");
    let provider = Provider::start(modules, &redirect_uri, certificate)?;
    let authorities = match certificate {
        Some(certificate) => vec![std::fs::read_to_string(&certificate.authority)?],
        None => Vec::new(),
    };
    let name = certificate.map_or("plain", |_| "private");
    create_method(shell, name, &provider, (&redirect_uri, &authorities))?;

    let output = log_in(shell, name, port, ("anna", certificate))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {complaint}");
    let token: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(token["Policies"] == json!(["readers"]), "{name}: {token}");
    ensure!(token["Name"] == "sso-anna", "{name}: {token}");
    let secret = token["SecretID"].as_str().context("a secret")?;
    let reader = Shell {
        token: secret,
        ..*shell
    };
    reader.works(&["job", "status"])?;

    let output = log_in(shell, name, port, ("otto", certificate))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "{name}: otto is no reader");
    let expected = "no role or policy bindings matched";
    ensure!(complaint.contains(expected), "{name}: {complaint}");
    if certificate.is_none() {
        return Ok(());
    }

    // Without the authority the server connects to nobody with this certificate.
    create_method(shell, "unknown", &provider, (&redirect_uri, &[]))?;
    let output = log_in(shell, "unknown", port, ("anna", certificate))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "the authority is not known");
    let named = complaint.contains(&provider.issuer) && complaint.contains("TLS");
    ensure!(named, "{complaint}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn user_of_a_foreign_provider_logs_in_over_http_and_private_https() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    if let Some(why) = block_in_place(|| install(folder.path())) {
        eprintln!("skipped: needs node and npm with {PACKAGE}: {why}");
        return Ok(());
    }
    let cluster = Cluster::start(Settings::of(1).with_access_control(MANAGER)).await?;
    let manager = Shell {
        cluster: &cluster,
        server: 0,
        token: MANAGER,
    };
    let rules = "namespace \"default\" {\n  policy = \"read\"\n}\n";
    std::fs::write(cluster.folder().join("readers.hcl"), rules)?;
    block_in_place(|| {
        manager.works(&["acl", "policy", "apply", "readers", "readers.hcl"])?;
        let certificate = Certificate::make(folder.path())?;
        logins_work(&manager, folder.path(), None)?;
        logins_work(&manager, folder.path(), Some(&certificate))
    })
}
