//! `/v1/agent` and `/v1/regions`: this server, and the others as this one sees them.

use std::collections::BTreeMap;
use std::time::Duration;

use controlplane_raft::{RaftRole, ServerId, ServerInfo};
use controlplane_state::COMMAND_LEVEL;
use futures::future::join_all;
use protocol_api::agent::{
    AgentDescription, AgentHealth, AgentMembers, AgentSelf, AgentServers, Member, MemberList,
    OpenApi, Regions,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};
use super::{Api, health};
use crate::gateway::Gateway;
use crate::versions::{self, About};

/// The version of Raft's protocol that Nomad's clients expect of members with ids.
pub(super) const RAFT_PROTOCOL: &str = "3";
/// How long another server may take to show that it is there.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// The pause before it is asked again: a connection may have to be made anew first.
const PROBE_PAUSE: Duration = Duration::from_millis(100);

pub(super) const ROUTES: Routes = routes![
    Regions => regions,
    AgentSelf => own,
    AgentMembers => members,
    AgentServers => servers,
    AgentHealth => health::health,
    OpenApi => openapi,
];

/// What this API is, of which no state tells.
async fn openapi(ask: &Ask) -> Answered {
    ask.answer(&protocol_api::openapi(versions::BUILD), 0)
}

/// `/v1/regions`: there is one.
async fn regions(ask: &Ask) -> Answered {
    ask.answer(
        &[ask.api.config.region.as_str()],
        ask.api.cluster.snapshot().index(),
    )
}

async fn members(ask: &Ask) -> Answered {
    let config = &ask.api.config;
    let members = all_members(&ask.api).await;
    let answer = MemberList {
        members,
        server_dc: config.datacenter.clone(),
        server_name: config.name.clone(),
        server_region: config.region.as_str().to_owned(),
    };
    ask.answer(&answer, ask.api.cluster.snapshot().index())
}

async fn all_members(api: &Api) -> Vec<Member> {
    let status = api.cluster.status();
    let leader = api.leader().map(|leader| leader.id);
    let voters = status.membership.voters.iter().map(|entry| (entry, "true"));
    let learners = status
        .membership
        .learners
        .iter()
        .map(|entry| (entry, "false"));
    let probed = voters
        .chain(learners)
        .map(|((id, info), voter)| async move {
            let about = if *id == status.id {
                Some(own_about(api))
            } else {
                about(api, info).await
            };
            member(api, *id, info, voter, leader == Some(*id), about)
        });
    join_all(probed).await
}

/// What this server says of itself.
fn own_about(api: &Api) -> About {
    About {
        build: versions::BUILD.to_owned(),
        level: COMMAND_LEVEL,
        datacenter: api.config.datacenter.clone(),
        acl_enabled: Some(api.config.acl_enabled),
        issuer: Some(api.config.oidc_issuer.clone().unwrap_or_default()),
        clock: None,
    }
}

/// What a server says of itself; `None` where it does not answer.
async fn about(api: &Api, info: &ServerInfo) -> Option<About> {
    let asked = async {
        loop {
            if let Some(about) = versions::ask(&api.cluster, &info.address).await {
                return about;
            }
            sleep(PROBE_PAUSE).await;
        }
    };
    timeout(PROBE_MAX, asked).await.ok()
}

fn member(
    api: &Api,
    id: ServerId,
    info: &ServerInfo,
    voter: &str,
    leads: bool,
    about: Option<About>,
) -> Member {
    let alive = about.is_some();
    let (build, datacenter) = about
        .map(|about| (about.build, about.datacenter))
        .unwrap_or_default();
    let (host, port) = info.address.rsplit_once(':').unwrap_or((&info.address, ""));
    let mut tags = BTreeMap::from([
        ("id", id.to_string()),
        ("role", "nomad".to_owned()),
        // As the library of Nomad's servers counts: members are known by ids, not by addresses.
        ("raft_vsn", RAFT_PROTOCOL.to_owned()),
        ("region", api.config.region.as_str().to_owned()),
        ("http_addr", info.http_address.clone()),
        ("port", port.to_owned()),
        ("voter", voter.to_owned()),
        ("leader", leads.to_string()),
        ("build", build),
    ]);
    // Who does not answer, or is of an older release, does not say where it is.
    if !datacenter.is_empty() {
        tags.insert("dc", datacenter);
    }
    Member {
        name: info.name.clone(),
        addr: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().unwrap_or(0),
        tags: tags
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        status: if alive { "alive" } else { "failed" }.to_owned(),
        protocol_min: 1,
        protocol_max: 1,
        protocol_cur: 1,
        delegate_min: 1,
        delegate_max: 1,
        delegate_cur: 1,
    }
}

async fn own(ask: &Ask) -> Answered {
    let Api {
        cluster,
        config,
        gateway,
        ..
    } = &ask.api;
    let status = cluster.status();
    let info = status
        .membership
        .get(status.id)
        .cloned()
        .unwrap_or_default();
    let leads = status.is_leader();
    let voter = status.membership.voters.contains_key(&status.id);
    let voter = if voter { "true" } else { "false" };
    let about = Some(own_about(&ask.api));
    let member = member(&ask.api, status.id, &info, voter, leads, about);
    let address = info.http_address.as_str();
    let config = json!({
            "Name": config.name,
            "NodeName": config.name,
            "Region": config.region.as_str(),
            "Datacenter": config.datacenter,
            "DataDir": config.data_dir,
            "BindAddr": config.quic_listen.ip().to_string(),
            "Ports": { "HTTP": config.http.listen.port(), "RPC": config.quic_listen.port() },
            "AdvertiseAddrs": { "HTTP": address, "RPC": info.address },
            "Server": { "Enabled": true, "BootstrapExpect": config.bootstrap_expect,
                        "NumSchedulers": config.schedulers },
            "Client": { "Enabled": false },
            "ACL": { "Enabled": config.acl_enabled },
            "Version": { "Version": versions::BUILD, "VersionPrerelease": "",
                         "VersionMetadata": "drover" },
    });
    let Value::Object(config) = config else {
        return Err(HttpError::internal("the configuration is no object"));
    };
    let leader = status.leader.and_then(|leader| leader.info);
    let nomad = [
        ("server", "true".to_owned()),
        ("leader", leads.to_string()),
        (
            "leader_addr",
            leader.map(|info| info.address).unwrap_or_default(),
        ),
        ("known_regions", "1".to_owned()),
        ("node_sessions", gateway.session_count().to_string()),
    ];
    let raft = [
        ("state", role(status.role).to_owned()),
        ("term", status.term.to_string()),
        ("last_log_index", status.last_index.to_string()),
        ("commit_index", status.committed_index.to_string()),
        ("applied_index", status.applied_index.to_string()),
        ("last_snapshot_index", status.snapshot_index.to_string()),
    ];
    let named = |(name, value): (&str, String)| (name.to_owned(), value);
    let answer = AgentDescription {
        config,
        member,
        stats: BTreeMap::from([
            ("nomad".to_owned(), nomad.map(named).into()),
            ("raft".to_owned(), raft.map(named).into()),
            ("admission".to_owned(), admission(gateway)),
        ]),
    };
    ask.answer(&answer, cluster.snapshot().index())
}

/// How nodes come in.
fn admission(gateway: &Gateway) -> BTreeMap<String, String> {
    let state = gateway.admission().state(Instant::now());
    let named = |(name, figure): (&str, u64)| (name.to_owned(), figure.to_string());
    let mut figures: BTreeMap<String, String> = state.figures().map(named).into();
    figures.insert("per_second".to_owned(), format!("{:.1}", state.rate));
    figures
}

fn role(role: RaftRole) -> &'static str {
    match role {
        RaftRole::Learner => "Learner",
        RaftRole::Follower => "Follower",
        RaftRole::Candidate => "Candidate",
        RaftRole::Leader => "Leader",
        RaftRole::Stopped => "Stopped",
    }
}

/// Where the servers are, for nodes that are configured by hand.
async fn servers(ask: &Ask) -> Answered {
    let membership = ask.api.cluster.status().membership;
    let all = membership
        .voters
        .values()
        .chain(membership.learners.values());
    let addresses: Vec<&str> = all.map(|info| info.address.as_str()).collect();
    ask.answer(&addresses, ask.api.cluster.snapshot().index())
}
