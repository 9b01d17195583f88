//! What a request is refused with: a status and plain text, as clients of the API expect it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use controlplane_state::{AccessRefusal, Refusal, VariableRefusal};

use crate::access::CredentialError;
use crate::cluster::ChangeError;
use crate::gateway::CallNodeError;

/// What a handler answers.
pub(super) type Answered = Result<Response, HttpError>;

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HttpError {
    /// The status.
    pub(super) status: StatusCode,
    /// The words.
    pub(super) message: String,
    /// Seconds after which the caller may try again.
    pub(super) retry_after_s: Option<u32>,
}

impl HttpError {
    /// A refusal with any status.
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after_s: None,
        }
    }

    /// 400: the request makes no sense.
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404: what is asked for is not there.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 500: it is the server's fault, or the cluster's.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// 501: it is known, and this release does not do it.
    pub(super) fn not_built(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, message)
    }

    /// 403, in the words that clients look for.
    pub(super) fn permission_denied() -> Self {
        Self::new(StatusCode::FORBIDDEN, "Permission denied")
    }

    /// 429: a budget is spent; seconds until the caller may try again.
    pub(super) fn limited(message: impl Into<String>, retry_after_s: u32) -> Self {
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, message);
        error.retry_after_s = Some(retry_after_s);
        error
    }

    /// 405, in the words that clients look for.
    pub(super) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Invalid method")
    }

    /// 404 for a path that nothing serves.
    pub(super) fn no_route() -> Self {
        Self::not_found("404 page not found")
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        let mut response = (self.status, kind, self.message).into_response();
        if let Some(seconds) = self.retry_after_s {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<ChangeError> for HttpError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Refused(refusal) => refusal.into(),
            ChangeError::Denied => Self::permission_denied(),
            ChangeError::Limited {
                message,
                retry_after_s,
            } => Self::limited(message, retry_after_s),
            ChangeError::NoLeader(_) => Self::internal("No cluster leader"),
            ChangeError::TooLarge(_) => Self::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
            // Nothing is wrong with the request: it can be made again after the upgrade.
            ChangeError::OldServer(why) => Self::new(StatusCode::SERVICE_UNAVAILABLE, why),
            ChangeError::OutcomeUnknown | ChangeError::Nonsense(_) | ChangeError::Stopped(_) => {
                Self::internal(error.to_string())
            }
        }
    }
}

impl From<CredentialError> for HttpError {
    fn from(error: CredentialError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<Refusal> for HttpError {
    fn from(refusal: Refusal) -> Self {
        let status = match &refusal {
            Refusal::UnknownJob(_) => return Self::not_found("job not found"),
            Refusal::UnknownAlloc(_) => return Self::not_found("alloc not found"),
            Refusal::UnknownNode(_) => return Self::not_found("node not found"),
            Refusal::UnknownEval(_) => return Self::not_found("eval not found"),
            Refusal::UnknownDeployment(_) => return Self::not_found("deployment not found"),
            Refusal::JobModified { wanted, found } => {
                return Self::internal(enforced(*wanted, *found));
            }
            Refusal::UnknownNodePool(_)
            | Refusal::UnknownJobVersion { .. }
            | Refusal::UnknownTag { .. }
            | Refusal::UnknownSpec(_) => StatusCode::NOT_FOUND,
            Refusal::UnknownNamespace(_)
            | Refusal::NamespaceInUse(_)
            | Refusal::NamespaceHolds(_)
            | Refusal::NamespaceNotDeletable(_)
            | Refusal::JobDenied(_)
            | Refusal::PoolNotChangeable(_)
            | Refusal::PoolNotDeletable(_)
            | Refusal::PoolHasNodes(_)
            | Refusal::PoolHasJobs(_)
            | Refusal::JobInUnknownPool { .. }
            | Refusal::EvalOfAnotherJob(_)
            | Refusal::EvalTerminal(_)
            | Refusal::EvalMismatch(_)
            | Refusal::EvalInUse(_)
            | Refusal::JobKind(_)
            | Refusal::LaunchFieldSet(_)
            | Refusal::LaunchFieldChanged(_)
            | Refusal::TemplateStopped(_)
            | Refusal::NotParameterized(_)
            | Refusal::Scale(_)
            | Refusal::TagTaken { .. }
            | Refusal::AllocState(_)
            | Refusal::NodeDraining(_)
            | Refusal::Malformed(_)
            | Refusal::DeploymentTerminal(_)
            | Refusal::NotPromotable(_)
            | Refusal::UnknownDeploymentGroup { .. }
            | Refusal::NotOfDeployment { .. }
            | Refusal::AclBootstrapped { .. } => StatusCode::BAD_REQUEST,
            Refusal::Access(refusal) => access_status(refusal),
            Refusal::Variable(refusal) => variable_status(refusal),
            Refusal::BadCheckpoint(_) | Refusal::RestoreTooLarge { .. } => StatusCode::BAD_REQUEST,
            Refusal::DuplicateAlloc(_)
            | Refusal::TemplateChanged { .. }
            | Refusal::ChildExists(_)
            | Refusal::DrainNotOver(_)
            | Refusal::DeploymentMoved { .. }
            | Refusal::ConfigModified { .. }
            | Refusal::RestoreInProgress { .. } => StatusCode::CONFLICT,
            Refusal::WrongSecret(_) | Refusal::JoinDenied(_) => StatusCode::FORBIDDEN,
            Refusal::AlreadyInitialized
            | Refusal::NotInitialized
            | Refusal::PlanRejected(_)
            | Refusal::NeedsFacts(_)
            | Refusal::NotInSession(_)
            | Refusal::PoolTakesNoNodes(_)
            | Refusal::RestoreUnknown
            | Refusal::RestoreGap { .. }
            | Refusal::AnotherIncarnation
            | Refusal::OldIndex { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, refusal.to_string())
    }
}

fn variable_status(refusal: &VariableRefusal) -> StatusCode {
    match refusal {
        VariableRefusal::InvalidPath(_)
        | VariableRefusal::LockTtl
        | VariableRefusal::LockDelay
        | VariableRefusal::Quota { .. }
        | VariableRefusal::TooMany
        | VariableRefusal::TooManyLocks => StatusCode::BAD_REQUEST,
        VariableRefusal::NotFound => StatusCode::NOT_FOUND,
        VariableRefusal::Conflict { .. }
        | VariableRefusal::Locked
        | VariableRefusal::NotLocked
        | VariableRefusal::AnotherLock => StatusCode::CONFLICT,
    }
}

fn access_status(refusal: &AccessRefusal) -> StatusCode {
    match refusal {
        AccessRefusal::InvalidPolicy { .. }
        | AccessRefusal::InvalidToken { .. }
        | AccessRefusal::InvalidRole { .. }
        | AccessRefusal::InvalidAuthMethod { .. }
        | AccessRefusal::InvalidBindingRule { .. }
        | AccessRefusal::UnknownToken(_)
        | AccessRefusal::NonexistentTokens(_)
        | AccessRefusal::TokenExists(_)
        | AccessRefusal::SecretInUse(_)
        | AccessRefusal::UnknownRole(_)
        | AccessRefusal::UnknownPolicy(_)
        | AccessRefusal::RoleExists(_)
        | AccessRefusal::RoleNameTaken(_)
        | AccessRefusal::DefaultMethodExists(_)
        | AccessRefusal::AuthMethodChanged(_)
        | AccessRefusal::BindingRuleExists(_)
        | AccessRefusal::SealedTooLong { .. }
        | AccessRefusal::LimitReached { .. }
        | AccessRefusal::RootKeyActive
        | AccessRefusal::RootKeyInUse
        | AccessRefusal::RootKeySeals { .. }
        | AccessRefusal::TooManyRows { .. } => StatusCode::BAD_REQUEST,
        AccessRefusal::RoleNotFound(_)
        | AccessRefusal::AuthMethodNotFound(_)
        | AccessRefusal::BindingRuleNotFound(_)
        | AccessRefusal::RootKeyNotFound(_) => StatusCode::NOT_FOUND,
        AccessRefusal::OneTimeTokenInvalid => StatusCode::FORBIDDEN,
        AccessRefusal::RootKeyMoved { .. }
        | AccessRefusal::RootKeyExists(_)
        | AccessRefusal::RootKeyState { .. }
        | AccessRefusal::RootKeyTooEarly(_)
        | AccessRefusal::RootKeyRewrapped(_)
        | AccessRefusal::SealingKeyGone(_) => StatusCode::CONFLICT,
    }
}

/// Why a check-and-set registration was refused. Clients look for the beginning of this text; the
/// status is the one that Nomad answers too.
fn enforced(wanted: u64, found: u64) -> String {
    match (wanted, found) {
        (0, _) => "Enforcing job modify index 0: job already exists".to_owned(),
        (_, 0) => format!("Enforcing job modify index {wanted}: job does not exist"),
        _ => format!(
            "Enforcing job modify index {wanted}: job exists with conflicting job modify index: \
             {found}"
        ),
    }
}

impl From<CallNodeError> for HttpError {
    fn from(error: CallNodeError) -> Self {
        match &error {
            // What Nomad answers for a node that no server reaches.
            CallNodeError::NotConnected(_) => Self::not_found(format!("No path to node: {error}")),
            CallNodeError::TooMany => Self::new(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
            CallNodeError::NotAttached(_) | CallNodeError::Unreachable { .. } => {
                Self::internal(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_not_the_caller_s_fault() {
        let why = "server b runs release 0.1.0, which cannot read this change: upgrade it first";
        let answer = HttpError::from(ChangeError::OldServer(why.to_owned()));
        assert_eq!(answer, HttpError::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
}
