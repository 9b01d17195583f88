//! `drover node drain`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{ArgGroup, Args};
use protocol_api::nodes::{DrainNode, DrainRequest, NodeAllocations, ReadNode};
use protocol_client::{Client, Query};
use protocol_model::{
    AllocId, Allocation, ClientStatus, DesiredStatus, DrainSpec, DrainStrategy, JobType, Node,
};

use super::node::this_host;
use crate::asking::{agreed, ask_on};
use crate::failure::{Exit, Failure};
use crate::find::{self, Kind};
use crate::render::node;
use crate::session::Session;

/// The deadline where no flag says otherwise, as in Nomad.
const DEADLINE_DEFAULT: &str = "1h";
/// How long one question waits at the server for a change.
const WAIT: &str = "2s";
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(250);
/// The key of the notes that `-m` sets, as in Nomad.
const MESSAGE: &str = "message";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("wish").required(true).args(["enable", "disable", "monitor"]))]
#[command(group = ArgGroup::new("which").required(true).args(["node", "this"]))]
#[command(group = ArgGroup::new("until").args(["deadline", "force", "no_deadline"]))]
pub(crate) struct Drain {
    /// The node's id, or its beginning
    #[arg(value_name = "NODE")]
    node: Option<String>,
    /// The node that is named as this host is
    #[arg(long = "self")]
    this: bool,
    /// Move allocations off the node
    #[arg(long)]
    enable: bool,
    /// End the node's drain; the node takes allocations again
    #[arg(long)]
    disable: bool,
    /// Watch the drain that is under way
    #[arg(long)]
    monitor: bool,
    /// When everything that is left is stopped; 1h where not given
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["disable", "monitor"])]
    #[arg(value_parser = deadline)]
    deadline: Option<Duration>,
    /// Stop everything now
    #[arg(long, conflicts_with_all = ["disable", "monitor"])]
    force: bool,
    /// Stop nothing that has no other node
    #[arg(long, conflicts_with_all = ["disable", "monitor"])]
    no_deadline: bool,
    /// Leave system jobs on the node
    #[arg(long)]
    ignore_system: bool,
    /// With -disable: the node takes no allocations yet
    #[arg(long, conflicts_with_all = ["enable", "monitor"])]
    keep_ineligible: bool,
    /// A note, shown with the node's last drain as "message"
    #[arg(short = 'm', value_name = "MESSAGE")]
    message: Option<String>,
    /// A note of any name, KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    meta: Vec<(String, String)>,
    /// Return once the drain is set
    #[arg(long)]
    detach: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

fn deadline(text: &str) -> Result<Duration, String> {
    let parsed = protocol_model::duration::parse_go(text).map_err(|error| error.to_string())?;
    if parsed.is_zero() {
        return Err("a positive drain duration must be given".to_owned());
    }
    Ok(parsed)
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Drain {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let id = match &self.node {
            Some(text) => find::id(&client, Kind::Node, text).await?,
            None => this_host(&client).await?,
        };
        let watch = Watch {
            session,
            client: &client,
            id: &id,
            ignore_system: self.ignore_system,
        };
        if self.monitor {
            watch.say(&format!(
                "Monitoring node {id:?}: Ctrl-C to detach monitoring"
            ))?;
            return watch.run().await;
        }
        if !self.is_meant(session, &id)? {
            return Ok(Exit::SUCCESS);
        }
        let set = DrainNode { id: &id };
        client
            .call_with(&set, &Query::new(), &self.request())
            .await?;
        if self.disable {
            session
                .out
                .data(&format!("Node {id:?} drain strategy unset"))?;
            return Ok(Exit::SUCCESS);
        }
        if self.detach {
            session
                .out
                .data(&format!("Node {id:?} drain strategy set"))?;
            return Ok(Exit::SUCCESS);
        }
        watch.say("Ctrl-C to stop monitoring: will not cancel the node drain")?;
        watch.say(&format!("Node {id:?} drain strategy set"))?;
        watch.run().await
    }

    /// A whole id was meant; a beginning may have hit another node.
    fn is_meant(&self, session: &Session, id: &str) -> Result<bool, Failure> {
        if self.yes || self.this || self.node.as_deref() == Some(id) {
            return Ok(true);
        }
        let verb = if self.enable { "enable" } else { "disable" };
        let question = format!("Are you sure you want to {verb} drain mode for node {id:?}?");
        let unasked = Failure::usage_hint(
            format!("the only node that begins so is {id:?}"),
            "give its whole id, or -yes",
        );
        let agreed = agreed(session, &question, unasked)?;
        if !agreed {
            session.out.data("Canceling drain toggle")?;
        }
        Ok(agreed)
    }

    fn request(&self) -> DrainRequest {
        let mut meta: BTreeMap<String, String> = self.meta.iter().cloned().collect();
        if let Some(message) = &self.message {
            meta.insert(MESSAGE.to_owned(), message.clone());
        }
        DrainRequest {
            drain_spec: self.enable.then(|| self.spec()),
            mark_eligible: self.disable && !self.keep_ineligible,
            meta: (!meta.is_empty()).then_some(meta),
        }
    }

    fn spec(&self) -> DrainSpec {
        let usual = || deadline(DEADLINE_DEFAULT).unwrap_or_default();
        let wait = self.deadline.unwrap_or_else(usual);
        DrainSpec {
            deadline: match (self.force, self.no_deadline) {
                (true, _) => -1,
                (_, true) => 0,
                _ => i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX),
            },
            ignore_system_jobs: self.ignore_system,
        }
    }
}

/// Watches a drain to its end.
struct Watch<'s> {
    session: &'s Session,
    client: &'s Client,
    id: &'s str,
    ignore_system: bool,
}

impl Watch<'_> {
    async fn run(&self) -> Result<Exit, Failure> {
        let first = self.node().await?;
        let mut known: BTreeMap<AllocId, Allocation> = BTreeMap::new();
        // A small drain may be over before it is looked at for the first time.
        let mut strategy = first.drain_strategy;
        if strategy.is_none() {
            self.say(&format!("No drain strategy set for node {}", self.id))?;
        }
        let mut index = 0;
        loop {
            let mut query = Query::new();
            if index > 0 {
                query = query.with("index", index).with("wait", WAIT);
            }
            let list = NodeAllocations { id: self.id };
            let answer = ask_on(self.session, self.client, &list, &query).await?;
            index = answer.index;
            let mut running = 0;
            for alloc in answer.value {
                running += u32::from(self.is_waited_for(&alloc));
                if let Some(news) = known.get(&alloc.id).and_then(|before| news(before, &alloc)) {
                    self.say(&format!("Alloc {:?} {news}", alloc.id.to_string()))?;
                }
                known.insert(alloc.id, alloc);
            }
            let node = self.node().await?;
            self.tell_strategy(&mut strategy, &node)?;
            if strategy.is_none() {
                if running == 0 {
                    let id = self.id;
                    self.say(&format!("All allocations on node {id:?} have stopped"))?;
                }
                return Ok(Exit::SUCCESS);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn tell_strategy(&self, known: &mut Option<DrainStrategy>, node: &Node) -> Result<(), Failure> {
        let id = self.id;
        match (&*known, node.drain_strategy) {
            (Some(_), None) => self.say(&format!("Drain complete for node {id}"))?,
            (Some(before), Some(_)) if Some(*before) != node.drain_strategy => {
                let strategy = node::drain(node, &self.session.clock());
                self.say(&format!("Node {id:?} drain updated: {strategy}"))?;
            }
            (Some(_) | None, _) => {}
        }
        *known = node.drain_strategy;
        Ok(())
    }

    async fn node(&self) -> Result<Node, Failure> {
        let read = ReadNode { id: self.id };
        let answer = ask_on(self.session, self.client, &read, &Query::new()).await?;
        Ok(answer.value)
    }

    fn is_waited_for(&self, alloc: &Allocation) -> bool {
        let job = alloc.job.as_ref();
        let system = job.is_some_and(|job| job.job_type == JobType::System);
        let runs = matches!(
            alloc.client_status,
            ClientStatus::Pending | ClientStatus::Running
        );
        runs && !(system && self.ignore_system)
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        let clock = self.session.clock();
        let now = clock.date(clock.now);
        self.session.out.data(&format!("{now}: {text}"))
    }
}

/// The news of an allocation, in Nomad's words.
fn news(before: &Allocation, alloc: &Allocation) -> Option<String> {
    let migrates = |alloc: &Allocation| alloc.desired_transition.should_migrate();
    if before.client_status != alloc.client_status {
        let (before, after) = (before.client_status.as_str(), alloc.client_status.as_str());
        return Some(format!("status {before} -> {after}"));
    }
    if !migrates(alloc) {
        return None;
    }
    if !migrates(before) {
        return Some("marked for migration".to_owned());
    }
    let stops = alloc.desired_status == DesiredStatus::Stop;
    (stops && before.desired_status != alloc.desired_status).then(|| "draining".to_owned())
}
