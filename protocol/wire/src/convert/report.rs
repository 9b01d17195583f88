//! Reports of allocations and their tasks.

use std::collections::BTreeMap;

use bytes::Bytes;
use protocol_model::{
    ClientStatus, DeploymentId, NetworkStatus, TaskEvent, TaskEventKind, TaskRunState, TaskState,
    UnixNanos,
};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};

use super::{ConvertError, alloc_id, bytes16, id_bytes};
use crate::report::{AllocReport, JudgedFor, ReportedHealth};
use crate::v1;

/// The most tasks that one report may carry: far above any job, below what would hurt.
pub const REPORT_TASKS_MAX: usize = 256;

/// The most bytes of an address or of an interface's name: above any that a kernel has.
const NETWORK_WORD_BYTES_MAX: usize = 64;

impl From<ClientStatus> for v1::ClientStatus {
    fn from(status: ClientStatus) -> Self {
        match status {
            ClientStatus::Pending => Self::Pending,
            ClientStatus::Running => Self::Running,
            ClientStatus::Complete => Self::Complete,
            ClientStatus::Failed => Self::Failed,
            ClientStatus::Lost => Self::Lost,
            ClientStatus::Unknown => Self::Unknown,
        }
    }
}

impl From<v1::ClientStatus> for ClientStatus {
    fn from(status: v1::ClientStatus) -> Self {
        match status {
            v1::ClientStatus::Pending => Self::Pending,
            v1::ClientStatus::Running => Self::Running,
            v1::ClientStatus::Complete => Self::Complete,
            v1::ClientStatus::Failed => Self::Failed,
            v1::ClientStatus::Lost => Self::Lost,
            v1::ClientStatus::Unknown => Self::Unknown,
        }
    }
}

impl From<TaskRunState> for v1::TaskRunState {
    fn from(state: TaskRunState) -> Self {
        match state {
            TaskRunState::Pending => Self::Pending,
            TaskRunState::Running => Self::Running,
            TaskRunState::Dead => Self::Dead,
        }
    }
}

impl From<v1::TaskRunState> for TaskRunState {
    fn from(state: v1::TaskRunState) -> Self {
        match state {
            v1::TaskRunState::Pending => Self::Pending,
            v1::TaskRunState::Running => Self::Running,
            v1::TaskRunState::Dead => Self::Dead,
        }
    }
}

impl From<&AllocReport> for v1::AllocReport {
    fn from(report: &AllocReport) -> Self {
        let AllocReport {
            id,
            revision,
            client_status,
            client_description,
            task_states,
            health,
            desired_version,
            network,
        } = report;
        Self {
            alloc_id: id_bytes(id.as_bytes()),
            revision: *revision,
            client_status: v1::ClientStatus::from(*client_status).into(),
            client_description: client_description.clone(),
            tasks: task_states
                .iter()
                .map(|(name, state)| task_report(name, state))
                .collect(),
            health: match health {
                None => v1::Health::Unknown,
                Some(health) if health.healthy => v1::Health::Healthy,
                Some(_) => v1::Health::Unhealthy,
            }
            .into(),
            health_at_ns: health.map_or(0, |health| health.at.0),
            desired_version: *desired_version,
            health_deployment_id: health.and_then(|health| judged_for_bytes(health.judged_for)),
            network: network.as_ref().map(v1::NetworkStatus::from),
        }
    }
}

impl TryFrom<v1::AllocReport> for AllocReport {
    type Error = ConvertError;

    fn try_from(message: v1::AllocReport) -> Result<Self, ConvertError> {
        let v1::AllocReport {
            alloc_id: id,
            revision,
            client_status,
            client_description,
            tasks,
            health,
            health_at_ns,
            desired_version,
            health_deployment_id,
            network,
        } = message;
        if tasks.len() > REPORT_TASKS_MAX {
            let found = tasks.len();
            return Err(ConvertError::TooMany {
                field: "tasks",
                max: REPORT_TASKS_MAX,
                found,
            });
        }
        let client_status =
            v1::ClientStatus::try_from(client_status).map_err(|_| ConvertError::UnknownValue {
                field: "client_status",
                value: client_status,
            })?;
        let healthy = match v1::Health::try_from(health) {
            Ok(v1::Health::Unknown) => None,
            Ok(v1::Health::Healthy) => Some(true),
            Ok(v1::Health::Unhealthy) => Some(false),
            Err(_) => {
                return Err(ConvertError::UnknownValue {
                    field: "health",
                    value: health,
                });
            }
        };
        let judged_for = judged_for(health_deployment_id.as_deref())?;
        Ok(Self {
            id: alloc_id("alloc_id", &id)?,
            revision,
            client_status: client_status.into(),
            client_description,
            task_states: tasks
                .into_iter()
                .map(task_state)
                .collect::<Result<_, _>>()?,
            health: healthy.map(|healthy| ReportedHealth {
                healthy,
                at: UnixNanos(health_at_ns),
                judged_for,
            }),
            desired_version,
            network: network.map(network_status).transpose()?,
        })
    }
}

impl From<&NetworkStatus> for v1::NetworkStatus {
    fn from(network: &NetworkStatus) -> Self {
        // Networks of mode bridge say nothing of name resolution.
        let NetworkStatus {
            interface_name,
            address,
            address_ipv6,
            dns: _,
        } = network;
        Self {
            interface: interface_name.clone(),
            address: address.clone(),
            address_ipv6: address_ipv6.clone(),
        }
    }
}

fn network_status(message: v1::NetworkStatus) -> Result<NetworkStatus, ConvertError> {
    let v1::NetworkStatus {
        interface,
        address,
        address_ipv6,
    } = message;
    for text in [&interface, &address, &address_ipv6] {
        if text.len() > NETWORK_WORD_BYTES_MAX {
            let found = text.len();
            return Err(ConvertError::TooMany {
                field: "network",
                max: NETWORK_WORD_BYTES_MAX,
                found,
            });
        }
    }
    Ok(NetworkStatus {
        interface_name: interface,
        address,
        address_ipv6,
        dns: None,
    })
}

fn judged_for_bytes(judged_for: JudgedFor) -> Option<Bytes> {
    match judged_for {
        JudgedFor::Unsaid => None,
        JudgedFor::NoDeployment => Some(Bytes::new()),
        JudgedFor::Deployment(id) => Some(id_bytes(id.as_bytes())),
    }
}

fn judged_for(bytes: Option<&[u8]>) -> Result<JudgedFor, ConvertError> {
    Ok(match bytes {
        None => JudgedFor::Unsaid,
        Some([]) => JudgedFor::NoDeployment,
        Some(id) => {
            let id = bytes16("health_deployment_id", id)?;
            JudgedFor::Deployment(DeploymentId::from_u128(u128::from_be_bytes(id)))
        }
    })
}

fn task_report(name: &str, state: &TaskState) -> v1::TaskReport {
    let TaskState {
        state,
        failed,
        restarts,
        last_restart,
        started_at,
        finished_at,
        events,
    } = state;
    v1::TaskReport {
        name: name.to_owned(),
        state: v1::TaskRunState::from(*state).into(),
        failed: *failed,
        restarts: *restarts,
        last_restart_ns: last_restart.map_or(0, |at| at.0),
        started_at_ns: started_at.map_or(0, |at| at.0),
        finished_at_ns: finished_at.map_or(0, |at| at.0),
        events: events
            .iter()
            .map(|event| v1::TaskEvent::from(&**event))
            .collect(),
    }
}

fn task_state(message: v1::TaskReport) -> Result<(String, TaskState), ConvertError> {
    let v1::TaskReport {
        name,
        state,
        failed,
        restarts,
        last_restart_ns,
        started_at_ns,
        finished_at_ns,
        events,
    } = message;
    let run_state = v1::TaskRunState::try_from(state).map_err(|_| ConvertError::UnknownValue {
        field: "tasks.state",
        value: state,
    })?;
    let mut task = TaskState {
        state: run_state.into(),
        failed,
        restarts,
        last_restart: optional_time(last_restart_ns),
        started_at: optional_time(started_at_ns),
        finished_at: optional_time(finished_at_ns),
        events: Vec::new(),
    };
    // A peer that sends more than the newest ones gets the newest ones: the bound is ours.
    for event in events {
        task.push_event(TaskEvent::from(event));
    }
    Ok((name, task))
}

fn optional_time(nanos: i64) -> Option<UnixNanos> {
    (nanos != 0).then_some(UnixNanos(nanos))
}

impl From<&TaskEvent> for v1::TaskEvent {
    fn from(event: &TaskEvent) -> Self {
        let TaskEvent {
            kind,
            time,
            display_message,
            details,
            exit_code,
            signal,
            fails_task,
        } = event;
        Self {
            kind: event_kind_name(*kind),
            time_ns: time.0,
            message: display_message.clone(),
            details: details.clone(),
            exit_code: *exit_code,
            signal: *signal,
            fails_task: *fails_task,
        }
    }
}

impl From<v1::TaskEvent> for TaskEvent {
    fn from(message: v1::TaskEvent) -> Self {
        let v1::TaskEvent {
            kind,
            time_ns,
            message,
            details,
            exit_code,
            signal,
            fails_task,
        } = message;
        let name: StrDeserializer<'_, ValueError> = kind.as_str().into_deserializer();
        Self {
            // A newer node may know kinds that we do not: they are shown as `Other`.
            kind: TaskEventKind::deserialize(name).unwrap_or(TaskEventKind::Other),
            time: UnixNanos(time_ns),
            display_message: message,
            details,
            exit_code,
            signal,
            fails_task,
        }
    }
}

/// The kind as the API spells it.
fn event_kind_name(kind: TaskEventKind) -> String {
    serde_json::to_value(kind)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The reports of a batch, or the first mistake in it.
pub fn alloc_reports(messages: Vec<v1::AllocReport>) -> Result<Vec<AllocReport>, ConvertError> {
    messages.into_iter().map(AllocReport::try_from).collect()
}

/// The messages of a batch.
pub fn alloc_report_messages<'a>(
    reports: impl IntoIterator<Item = &'a AllocReport>,
) -> Vec<v1::AllocReport> {
    reports.into_iter().map(v1::AllocReport::from).collect()
}

/// The states of tasks without their events: what is replicated of a living allocation.
pub fn without_events(states: &BTreeMap<String, TaskState>) -> BTreeMap<String, TaskState> {
    let kept = |(name, state): (&String, &TaskState)| (name.clone(), state.without_events());
    states.iter().map(kept).collect()
}
