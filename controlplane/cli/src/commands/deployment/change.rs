//! Commands that change a deployment, and watch what becomes of it.

use clap::Args;
use protocol_api::deployments::{
    DeploymentChanged, FailDeployment, PauseDeployment, PauseRequest, PromoteDeployment,
    PromoteRequest, UnblockDeployment, UnblockRequest,
};
use protocol_client::{Client, Query};

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length, shown};
use crate::monitor::Monitor;
use crate::session::Session;

/// Which deployment is changed, and whether the evaluation of the change is watched.
#[derive(Args, Debug)]
pub(crate) struct Subject {
    /// The deployment's id, or its beginning
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    #[command(flatten)]
    watch: WatchFlags,
}

/// How a change is watched.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WatchFlags {
    /// Return at once and do not watch the evaluation
    #[arg(long)]
    detach: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl WatchFlags {
    fn length(self) -> Length {
        Length::new(self.verbose)
    }

    /// Watches the evaluation of a change, if it made one.
    pub(crate) async fn watch(
        self,
        session: &Session,
        client: &Client,
        changed: &DeploymentChanged,
    ) -> Result<Exit, Failure> {
        if self.detach || changed.eval_id.is_empty() {
            return Ok(Exit::SUCCESS);
        }
        let monitor = Monitor::new(session, client, self.length());
        monitor.watch(&changed.eval_id).await
    }
}

impl Subject {
    async fn find(&self, session: &Session) -> Result<(Client, String), Failure> {
        let client = session.client()?;
        let id = find::id(&client, Kind::Deployment, &self.deployment).await?;
        Ok((client, id))
    }

    fn shown(&self, id: &str) -> String {
        shown(id, self.watch.length())
    }
}

#[derive(Args, Debug)]
pub(crate) struct Fail {
    #[command(flatten)]
    subject: Subject,
}

impl Fail {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let (client, id) = self.subject.find(session).await?;
        let fail = FailDeployment { id: &id };
        let changed = client.call(&fail, &Query::new()).await?.value;
        let id = self.subject.shown(&id);
        session.out.data(&match changed.reverted_job_version {
            None => format!("Deployment {id:?} failed"),
            Some(version) => {
                format!("Deployment {id:?} failed. Auto-reverted to job version {version}.")
            }
        })?;
        self.subject.watch.watch(session, &client, &changed).await
    }
}

#[derive(Args, Debug)]
pub(crate) struct Pause {
    /// The deployment's id, or its beginning
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl Pause {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let id = find::id(&client, Kind::Deployment, &self.deployment).await?;
        let request = PauseRequest {
            deployment_id: id.clone(),
            pause: true,
        };
        let pause = PauseDeployment { id: &id };
        client.call_with(&pause, &Query::new(), &request).await?;
        let id = shown(&id, Length::new(self.verbose));
        session.out.data(&format!("Deployment {id:?} paused"))?;
        Ok(Exit::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Resume {
    #[command(flatten)]
    subject: Subject,
}

impl Resume {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let (client, id) = self.subject.find(session).await?;
        let request = PauseRequest {
            deployment_id: id.clone(),
            pause: false,
        };
        let resume = PauseDeployment { id: &id };
        let changed = client.call_with(&resume, &Query::new(), &request).await?;
        let id = self.subject.shown(&id);
        session.out.data(&format!("Deployment {id:?} resumed"))?;
        let watch = self.subject.watch;
        watch.watch(session, &client, &changed.value).await
    }
}

#[derive(Args, Debug)]
pub(crate) struct Promote {
    #[command(flatten)]
    subject: Subject,
    /// Promote this group only; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
}

impl Promote {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let (client, id) = self.subject.find(session).await?;
        let changed = promote(&client, &id, self.groups).await?;
        self.subject.watch.watch(session, &client, &changed).await
    }
}

/// Promotes groups of a deployment: all of them where none is named.
pub(crate) async fn promote(
    client: &Client,
    id: &str,
    groups: Vec<String>,
) -> Result<DeploymentChanged, Failure> {
    let request = PromoteRequest {
        deployment_id: id.to_owned(),
        all: groups.is_empty(),
        groups,
    };
    let promote = PromoteDeployment { id };
    let changed = client.call_with(&promote, &Query::new(), &request).await?;
    Ok(changed.value)
}

#[derive(Args, Debug)]
pub(crate) struct Unblock {
    #[command(flatten)]
    subject: Subject,
}

impl Unblock {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let (client, id) = self.subject.find(session).await?;
        let request = UnblockRequest {
            deployment_id: id.clone(),
        };
        let unblock = UnblockDeployment { id: &id };
        let changed = client.call_with(&unblock, &Query::new(), &request).await?;
        let id = self.subject.shown(&id);
        session.out.data(&format!("Deployment {id:?} unblocked"))?;
        let watch = self.subject.watch;
        watch.watch(session, &client, &changed.value).await
    }
}
