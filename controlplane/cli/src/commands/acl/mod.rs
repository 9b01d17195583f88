//! `drover acl`: policies, tokens, roles, auth methods, binding rules, and who one is.

mod auth_method;
mod binding_rule;
mod bootstrap;
mod policy;
mod role;
mod token;
mod whoami;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::listing::Form;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum AclCommand {
    /// Auth methods: identity providers to log in with
    #[command(subcommand, name = "auth-method")]
    AuthMethod(auth_method::AuthMethodCommand),
    /// Binding rules: the roles and policies of a login
    #[command(subcommand, name = "binding-rule")]
    BindingRule(binding_rule::BindingRuleCommand),
    /// Make the first management token
    Bootstrap(bootstrap::Bootstrap),
    /// Policies: named sets of rules
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Roles: named sets of policies
    #[command(subcommand)]
    Role(role::RoleCommand),
    /// Tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Show the caller as the server sees it, and the rest of its budgets
    Whoami(Json),
}

/// The flag of commands that show one answer.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Json {
    /// Answer of the API
    #[arg(long)]
    json: bool,
}

impl Json {
    fn form(self) -> Form {
        Form::new(self.json)
    }

    /// Prints the answer of a write.
    fn print<T: Serialize>(
        self,
        session: &Session,
        answer: &T,
        render: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.form() {
            Form::Json => session.out.json(answer),
            Form::Text => session.out.data(&render(answer)),
        }
    }
}

impl AclCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::AuthMethod(command) => command.run(session).await?,
            Self::BindingRule(command) => command.run(session).await?,
            Self::Bootstrap(command) => command.run(session).await?,
            Self::Policy(command) => command.run(session).await?,
            Self::Role(command) => command.run(session).await?,
            Self::Token(command) => command.run(session).await?,
            Self::Whoami(json) => whoami::run(session, json).await?,
        }
        Ok(Exit::SUCCESS)
    }
}
