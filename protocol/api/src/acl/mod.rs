//! Access control: policies, tokens, roles, auth methods, binding rules, login.
//!
//! One operation is declared per route; the types of bodies and answers stand in one file per
//! object, in the shapes of Nomad's API.

mod auth_method;
mod binding_rule;
mod login;
mod policy;
mod role;
mod token;
mod ttl;
mod whoami;

use protocol_model::{AuthMethod, AuthMethodStub, BindingRule, BindingRuleStub};

use crate::endpoint::Parameter;
use crate::needs::{MANAGEMENT, PUBLIC, SHOWN, TOKEN};
use crate::operation::operations;
use crate::parameters::{NEXT_TOKEN, PER_PAGE, PREFIX, REVERSE};
use crate::written::Written;

pub use auth_method::AuthMethodRequest;
pub use binding_rule::BindingRuleRequest;
pub use login::{AuthUrl, AuthUrlRequest, CompleteAuthRequest, LoginRequest};
pub use policy::{JobAcl, Policy, PolicyRequest, PolicyStub};
pub use role::{PolicyLink, Role, RoleRequest};
pub use token::{
    BootstrapRequest, ExchangeRequest, ExchangedToken, OneTimeToken, OneTimeTokenMade, RoleLink,
    Token, TokenRequest, TokenStub,
};
pub use whoami::{BudgetLeft, Budgets, Via, WhoAmI, WhoAmIToken};

/// The largest body of [`Bootstrap`], [`ExchangeOneTimeToken`] and [`StartOidcLogin`], which
/// anybody may send: they hold one secret, or a name, an address and a nonce.
const SECRET_BYTES_MAX: usize = 4096;
/// The largest body of [`Login`] and [`CompleteOidcLogin`], which anybody may send. A provider's
/// token that is too long is refused by the login, with a text that says so: its body has to fit.
const LOGIN_BYTES_MAX: usize = 2 << 20;
/// The largest body of [`UpdatePolicy`]: 64 KiB of rules, escaped as JSON, and what stands beside.
const POLICY_BYTES_MAX: usize = 512 << 10;
/// The largest body of what management writes: a method has keys and certificates.
const OBJECT_BYTES_MAX: usize = 1 << 20;

const TOKENS: &[Parameter] = &[
    PREFIX,
    PER_PAGE,
    NEXT_TOKEN,
    REVERSE,
    Parameter::flag("global", "only tokens whose `Global` is this"),
];

operations! {
    /// make the first token; `BootstrapSecret` is its secret, a UUID (made where it is absent)
    Bootstrap {} (BootstrapRequest) -> Token = put("/v1/acl/bootstrap", PUBLIC)
        .needs_access_control()
        .optional_body()
        .body_bytes_max(SECRET_BYTES_MAX);
    /// list policies; without management, the caller's own
    ListPolicies {} -> Vec<PolicyStub> =
        get("/v1/acl/policies", SHOWN).needs_access_control().parameters(&[PREFIX]);
    /// list the policies of the caller, with those of its roles
    OwnPolicies {} -> Vec<PolicyStub> =
        get("/v1/acl/policy/self", SHOWN).needs_access_control();
    /// read a policy; without management, one of the caller's own
    ReadPolicy { name } -> Policy =
        get("/v1/acl/policy/{name}", SHOWN).needs_access_control();
    /// create or change a policy; `Rules` is HCL or JSON
    UpdatePolicy { name } (PolicyRequest) -> Policy = put("/v1/acl/policy/{name}", MANAGEMENT)
        .needs_access_control()
        .body_bytes_max(POLICY_BYTES_MAX);
    /// remove a policy
    DeletePolicy { name } -> Written =
        delete("/v1/acl/policy/{name}", MANAGEMENT).needs_access_control();
    /// list tokens, without their secrets
    ListTokens {} -> Vec<TokenStub> =
        get("/v1/acl/tokens", MANAGEMENT).needs_access_control().filterable().parameters(TOKENS);
    /// create a token; with `AccessorID` and `SecretID` both given, take over this one
    CreateToken {} (TokenRequest) -> Token = put("/v1/acl/token", MANAGEMENT)
        .needs_access_control()
        .body_bytes_max(OBJECT_BYTES_MAX);
    /// describe the caller's token; the anonymous one where there is no token
    OwnToken {} -> Token = get("/v1/acl/token/self", PUBLIC).needs_access_control();
    /// read a token, with its secret; without management, the caller's own
    ReadToken { accessor } -> Token =
        get("/v1/acl/token/{accessor}", TOKEN).needs_access_control();
    /// change the name, the policies and the roles of a token
    UpdateToken { accessor } (TokenRequest) -> Token = put("/v1/acl/token/{accessor}", MANAGEMENT)
        .needs_access_control()
        .body_bytes_max(OBJECT_BYTES_MAX);
    /// remove a token
    DeleteToken { accessor } -> Written =
        delete("/v1/acl/token/{accessor}", MANAGEMENT).needs_access_control();
    /// make a one-time token of the caller's token
    CreateOneTimeToken {} -> OneTimeTokenMade =
        put("/v1/acl/token/onetime", TOKEN).needs_access_control();
    /// exchange a one-time token for the token that it was made of, once
    ExchangeOneTimeToken {} (ExchangeRequest) -> ExchangedToken =
        put("/v1/acl/token/onetime/exchange", PUBLIC)
            .needs_access_control()
            .body_bytes_max(SECRET_BYTES_MAX);
    /// list roles; without management, the caller's own
    ListRoles {} -> Vec<Role> =
        get("/v1/acl/roles", SHOWN).needs_access_control().parameters(&[PREFIX]);
    /// create a role
    CreateRole {} (RoleRequest) -> Role = put("/v1/acl/role", MANAGEMENT)
        .needs_access_control()
        .body_bytes_max(OBJECT_BYTES_MAX);
    /// read a role; without management, one of the caller's own
    ReadRole { id } -> Role = get("/v1/acl/role/{id}", SHOWN).needs_access_control();
    /// the same by its name
    ReadRoleByName { name } -> Role =
        get("/v1/acl/role/name/{name}", SHOWN).needs_access_control();
    /// change a role, its name included
    UpdateRole { id } (RoleRequest) -> Role = put("/v1/acl/role/{id}", MANAGEMENT)
        .needs_access_control()
        .body_bytes_max(OBJECT_BYTES_MAX);
    /// remove a role
    DeleteRole { id } -> Written =
        delete("/v1/acl/role/{id}", MANAGEMENT).needs_access_control();
    /// list auth methods, without their configuration
    ListAuthMethods {} -> Vec<AuthMethodStub> =
        get("/v1/acl/auth-methods", PUBLIC).needs_access_control();
    /// create an auth method
    CreateAuthMethod {} (AuthMethodRequest) -> AuthMethod = put("/v1/acl/auth-method", MANAGEMENT)
        .needs_access_control()
        .body_bytes_max(OBJECT_BYTES_MAX);
    /// read an auth method; its secrets read `redacted`
    ReadAuthMethod { name } -> AuthMethod =
        get("/v1/acl/auth-method/{name}", MANAGEMENT).needs_access_control();
    /// change an auth method; a field that the body lacks stays as it is
    UpdateAuthMethod { name } (AuthMethodRequest) -> AuthMethod =
        put("/v1/acl/auth-method/{name}", MANAGEMENT)
            .needs_access_control()
            .body_bytes_max(OBJECT_BYTES_MAX);
    /// remove an auth method with its binding rules
    DeleteAuthMethod { name } -> Written =
        delete("/v1/acl/auth-method/{name}", MANAGEMENT).needs_access_control();
    /// list binding rules
    ListBindingRules {} -> Vec<BindingRuleStub> =
        get("/v1/acl/binding-rules", MANAGEMENT).needs_access_control();
    /// create a binding rule
    CreateBindingRule {} (BindingRuleRequest) -> BindingRule = put("/v1/acl/binding-rule", MANAGEMENT)
        .needs_access_control()
        .body_bytes_max(OBJECT_BYTES_MAX);
    /// read a binding rule
    ReadBindingRule { id } -> BindingRule =
        get("/v1/acl/binding-rule/{id}", MANAGEMENT).needs_access_control();
    /// change a binding rule; a field that the body lacks stays as it is
    UpdateBindingRule { id } (BindingRuleRequest) -> BindingRule =
        put("/v1/acl/binding-rule/{id}", MANAGEMENT)
            .needs_access_control()
            .body_bytes_max(OBJECT_BYTES_MAX);
    /// remove a binding rule
    DeleteBindingRule { id } -> Written =
        delete("/v1/acl/binding-rule/{id}", MANAGEMENT).needs_access_control();
    /// say who the caller is, how the request came, and what is left of its budgets
    ReadWhoAmI {} -> WhoAmI = get("/v1/acl/whoami", PUBLIC);
    /// log in with a token of an identity provider
    Login {} (LoginRequest) -> Token = put("/v1/acl/login", PUBLIC)
        .needs_access_control()
        .body_bytes_max(LOGIN_BYTES_MAX);
    /// begin a login by OIDC: the address to open in a browser
    StartOidcLogin {} (AuthUrlRequest) -> AuthUrl = put("/v1/acl/oidc/auth-url", PUBLIC)
        .needs_access_control()
        .body_bytes_max(SECRET_BYTES_MAX);
    /// end a login by OIDC, with the provider's code
    CompleteOidcLogin {} (CompleteAuthRequest) -> Token = put("/v1/acl/oidc/complete-auth", PUBLIC)
        .needs_access_control()
        .body_bytes_max(LOGIN_BYTES_MAX);
}
