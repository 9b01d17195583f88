//! Why a command failed, what its user can do about it, and the exit code.

use std::io;
use std::path::PathBuf;

use protocol_client::{ClientError, TlsTrouble};
use protocol_transport::{RegionError, ca, files};

use crate::refusal;

/// How a command ended that did not fail: the process's exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    /// Done.
    pub(crate) const SUCCESS: Self = Self(0);
    /// The command's answer is "no".
    pub(crate) const NO: Self = Self(1);
    /// Accepted, but not everything could be placed, or its rollout failed.
    pub(crate) const NOT_PLACED: Self = Self(2);
}

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The server's refusal, or no server.
    #[error(transparent)]
    Api(#[from] ClientError),
    /// Arguments that make no sense together.
    #[error("{message}")]
    Usage {
        message: String,
        hint: Option<String>,
    },
    /// Nothing has an id that begins so.
    #[error("no {what} has an id that begins with: {id}")]
    NotFound { what: &'static str, id: String },
    /// Too short to be an id.
    #[error("an id's beginning needs at least two hexadecimal digits, got: {id}")]
    NotAnId { id: String },
    /// Several things have an id that begins so.
    #[error("several {what}s begin with {id}:\n  {}", matches.join("\n  "))]
    Ambiguous {
        what: &'static str,
        id: String,
        matches: Vec<String>,
    },
    /// A job file with mistakes, all of them.
    #[error("the job file cannot be read:\n\n{0}")]
    JobFile(protocol_jobspec::Diagnostics),
    /// A node pool's file with mistakes, all of them.
    #[error("the node pool file cannot be read:\n\n{0}")]
    PoolFile(protocol_jobspec::Diagnostics),
    /// A namespace's file with mistakes, all of them.
    #[error("the namespace file cannot be read:\n\n{0}")]
    NamespaceFile(protocol_jobspec::Diagnostics),
    /// A variable specification with mistakes, all of them.
    #[error("the variable specification cannot be read:\n\n{0}")]
    VariableFile(protocol_jobspec::Diagnostics),
    /// A policy's file with mistakes, all of them.
    #[error("the policy file cannot be read:\n\n{0}")]
    PolicyFile(String),
    /// A job with mistakes, all of them, where its file makes them.
    #[error("the job is not valid:\n\n{0}")]
    Mistakes(protocol_jobspec::Diagnostics),
    /// A job with mistakes, all of them, without a file that has lines.
    #[error("the job is not valid: {0}")]
    Job(String),
    #[error("cannot read {}", path.display())]
    ReadFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write {}", path.display())]
    WriteFile {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A signal came while a file was being written.
    #[error("interrupted: nothing is left of {}", path.display())]
    Interrupted { path: PathBuf },
    /// A file that is no whole snapshot.
    #[error("{} is no snapshot that can be restored", path.display())]
    Snapshot {
        path: PathBuf,
        #[source]
        source: controlplane_state::checkpoint::RestoreError,
    },
    #[error("writing or reading {what} as JSON")]
    Json {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },
    #[error("writing output")]
    Output(#[source] io::Error),
    #[error("making a certificate")]
    Issue(#[from] ca::IssueError),
    #[error("loading the certificate authority")]
    Authority(#[from] ca::LoadError),
    #[error(transparent)]
    WritePem(#[from] files::WriteFileError),
    #[error(transparent)]
    ReadKey(#[from] files::ReadKeyError),
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Something of this host: the runtime, the terminal.
    #[error("{what}")]
    Host {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    /// The stream of `exec` ended before its command did.
    #[error("the connection ended before the command did: {0}")]
    Broken(String),
    /// A failure with an exit code of its own.
    #[error("{failure}")]
    WithCode { code: u8, failure: Box<Self> },
}

impl Failure {
    /// Arguments that make no sense together.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: None,
        }
    }

    /// The same with what to do instead.
    pub(crate) fn usage_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// The same where a server answered 404 "... not found": with the name that was asked for, and
    /// what to do.
    pub(crate) fn naming(self, name: &str, hint: &str) -> Self {
        match self {
            Self::Api(ClientError::Status { code: 404, message })
                if message.ends_with(" not found") =>
            {
                Self::usage_hint(format!("{message}: {name}"), hint)
            }
            other => other,
        }
    }

    /// The failure itself, without its exit code.
    pub(crate) fn inner(&self) -> &Self {
        match self {
            Self::WithCode { failure, .. } => failure.inner(),
            plain => plain,
        }
    }

    /// Ends the process with `code`.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self::WithCode {
            code,
            failure: Box::new(self),
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::WithCode { code, .. } => *code,
            _ => 1,
        }
    }

    /// Whether nobody reads what we write: no reason to say so.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self.inner(), Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self.inner() {
            Self::Usage { hint, .. } => return hint.clone(),
            Self::Api(error) => return api_hint(error),
            Self::NotFound { what: "node", .. } => "`drover node status` lists the nodes",
            Self::NotFound {
                what: "root key", ..
            } => "`drover operator root keyring list` lists the keys",
            Self::NotFound { .. } => "another namespace is asked with -namespace, all with '*'",
            Self::WriteFile { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                "name another file, or move this one away"
            }
            Self::Ambiguous { .. } => "give more of the id",
            Self::WritePem(files::WriteFileError::Exists { .. }) => {
                "move the file away, or use another folder"
            }
            Self::ReadKey(files::ReadKeyError::TooOpen { .. }) => {
                "chmod 0600 takes the others away"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}

fn api_hint(error: &ClientError) -> Option<String> {
    let text = match error {
        ClientError::Connect { .. } => {
            "is a server running there? its address is set with -address or DROVER_ADDR"
        }
        ClientError::Transfer { .. } => {
            "if the server speaks HTTPS, its address begins with https:// and needs -ca-cert"
        }
        ClientError::Silent { .. } => {
            "what was asked may still be carried out: look before asking again; -address asks \
             another server"
        }
        ClientError::Tls { trouble, .. } => tls_hint(*trouble)?,
        ClientError::Ended { .. } => {
            "a token that was deleted or has expired ends its streams (`drover acl whoami`), and so \
             does a server that stops: look, then ask again"
        }
        ClientError::Status { code, message } => refusal::hint(*code, message)?,
        ClientError::Decode { .. } => {
            "is it a control plane's HTTP port that -address or DROVER_ADDR names?"
        }
        ClientError::Address { .. } => "for example: http://127.0.0.1:4646",
        _ => return None,
    };
    Some(text.to_owned())
}

fn tls_hint(trouble: TlsTrouble) -> Option<&'static str> {
    Some(match trouble {
        TlsTrouble::NoTls => "the server seems to speak plain HTTP: write the address with http://",
        TlsTrouble::UnknownAuthority => {
            "name the authority that signed the server's certificate with -ca-cert or DROVER_CACERT"
        }
        TlsTrouble::WrongName => {
            "the certificate is for another name: ask the server by that one, or give it with \
             -tls-server-name"
        }
        TlsTrouble::NotValidNow => "compare the clocks; `drover tls cert create` makes a new one",
        TlsTrouble::ClientCertificate => {
            "the server wants a certificate of its authority: -client-cert and -client-key, made \
             with `drover tls cert create -cli`"
        }
        TlsTrouble::Other => return None,
    })
}
