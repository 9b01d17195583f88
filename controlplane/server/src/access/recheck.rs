//! The leader's second look: a caller's rights, once more, on the newest applied state.

use std::sync::Arc;

use controlplane_state::{AclTokenKind, Snapshot};
use protocol_access::{
    Capability as _, HostVolumeCapability, Level, NamespaceCapability, NodePoolCapability,
    OperatorCapability, Requirement, VariableCapability,
};
use protocol_model::{AllocId, UnixNanos};
use protocol_wire::v1;
use uuid::Uuid;

use super::{Access, Asker, Caller, Workload};

/// The origin of a change.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A server, by itself or for a node.
    Internal,
    /// A caller of the HTTP API.
    Caller(Recheck),
}

/// A caller and the rights that its change needs.
#[derive(Clone, Debug)]
pub(crate) struct Recheck {
    pub(crate) caller: Caller,
    pub(crate) requirements: Vec<Requirement>,
}

impl Origin {
    /// The origin as a server sends it.
    pub(crate) fn to_wire(&self) -> v1::Asker {
        let origin = match self {
            Self::Internal => v1::asker::Origin::Internal(v1::Internal {}),
            Self::Caller(recheck) => v1::asker::Origin::Caller(recheck.to_wire()),
        };
        v1::Asker {
            origin: Some(origin),
        }
    }
}

impl Recheck {
    /// Whether the caller has the rights that its change needs.
    pub(crate) fn holds(&self, asker: &Asker) -> bool {
        self.requirements.iter().all(|it| it.holds(&asker.acl))
    }

    /// The caller `asker` with these requirements.
    pub(crate) fn of(asker: &Asker, requirements: Vec<Requirement>) -> Self {
        Self {
            caller: asker.caller.clone(),
            requirements,
        }
    }

    fn to_wire(&self) -> v1::Caller {
        use v1::caller::Kind;
        let mut wire = v1::Caller {
            requirements: self.requirements.iter().map(requirement_to_wire).collect(),
            ..v1::Caller::default()
        };
        match &self.caller {
            Caller::Open => wire.set_kind(Kind::Open),
            Caller::Anonymous { address } => {
                wire.set_kind(Kind::Anonymous);
                wire.address = address.to_string();
            }
            Caller::Token { accessor_id, .. } => {
                wire.set_kind(Kind::Token);
                wire.accessor_id = accessor_id.to_string();
            }
            Caller::Workload(workload) => {
                wire.set_kind(Kind::Workload);
                wire.workload = Some(workload_to_wire(workload));
            }
        }
        wire
    }
}

/// Reads the origin that another server sent. A caller that cannot be read is refused: a right that
/// this release does not know cannot be judged.
///
/// # Errors
/// With the text for the other server.
pub(crate) fn origin_from_wire(wire: &v1::Asker) -> Result<Origin, String> {
    match &wire.origin {
        Some(v1::asker::Origin::Internal(v1::Internal {})) => Ok(Origin::Internal),
        Some(v1::asker::Origin::Caller(caller)) => caller_from_wire(caller).map(Origin::Caller),
        None => Err("the origin of the change is missing".to_owned()),
    }
}

fn caller_from_wire(wire: &v1::Caller) -> Result<Recheck, String> {
    use v1::caller::Kind;
    let caller = match Kind::try_from(wire.kind) {
        Ok(Kind::Open) => Caller::Open,
        Ok(Kind::Anonymous) => Caller::Anonymous {
            address: wire
                .address
                .parse()
                .map_err(|_| "bad address of a caller")?,
        },
        Ok(Kind::Token) => Caller::Token {
            accessor_id: wire.accessor_id.as_str().into(),
            // Looked up again: the rights are those of the state.
            kind: AclTokenKind::Client,
        },
        Ok(Kind::Workload) => {
            let workload = wire.workload.as_ref().and_then(workload_from_wire);
            Caller::Workload(Arc::new(workload.ok_or("bad workload of a caller")?))
        }
        Ok(Kind::Unspecified) | Err(_) => return Err("unknown kind of caller".to_owned()),
    };
    let requirements = wire.requirements.iter().map(requirement_from_wire);
    let requirements = requirements.collect::<Option<Vec<_>>>();
    Ok(Recheck {
        caller,
        requirements: requirements.ok_or("a right that this release does not know")?,
    })
}

fn workload_to_wire(workload: &Workload) -> v1::WorkloadCaller {
    v1::WorkloadCaller {
        alloc_id: workload.alloc.as_bytes().to_vec().into(),
        task: workload.task.to_string(),
        root_key: workload.root_key.as_bytes().to_vec().into(),
        expires_at: workload.expires_at.unwrap_or(0),
    }
}

/// Namespace, job and group are looked up again: they are those of the state.
fn workload_from_wire(wire: &v1::WorkloadCaller) -> Option<Workload> {
    Some(Workload {
        alloc: AllocId::from_slice(&wire.alloc_id)?,
        namespace: "".into(),
        job: "".into(),
        group: "".into(),
        task: wire.task.as_str().into(),
        root_key: Uuid::from_slice(&wire.root_key).ok()?,
        expires_at: Some(wire.expires_at).filter(|at| *at > 0),
    })
}

fn requirement_to_wire(requirement: &Requirement) -> v1::Requirement {
    use v1::requirement::Right;
    let right = match requirement {
        Requirement::Management => Right::Management(v1::Unit {}),
        Requirement::Namespace { namespace, any } => Right::Namespace(v1::NamespaceRight {
            namespace: namespace.clone(),
            any: any
                .iter()
                .map(|all| v1::CapabilitySet {
                    capabilities: all.iter().map(|it| u32::from(it.id())).collect(),
                })
                .collect(),
        }),
        Requirement::NodePool {
            node_pool,
            capability,
        } => Right::NodePool(v1::NodePoolRight {
            node_pool: node_pool.clone(),
            capability: capability.id().into(),
        }),
        Requirement::HostVolume { volume, any } => Right::HostVolume(v1::HostVolumeRight {
            volume: volume.clone(),
            any: any.iter().map(|it| it.id().into()).collect(),
        }),
        Requirement::Variable {
            namespace,
            path,
            capability,
        } => Right::Variable(v1::VariableRight {
            namespace: namespace.clone(),
            path: path.clone(),
            capability: capability.id().into(),
        }),
        Requirement::Node(level) => Right::Node(level.id().into()),
        Requirement::Agent(level) => Right::Agent(level.id().into()),
        Requirement::OperatorLevel(level) => Right::OperatorLevel(level.id().into()),
        Requirement::Operator(capability) => Right::Operator(capability.id().into()),
    };
    v1::Requirement { right: Some(right) }
}

fn requirement_from_wire(wire: &v1::Requirement) -> Option<Requirement> {
    use v1::requirement::Right;
    let small = |id: u32| u8::try_from(id).ok();
    let level = |id: u32| Level::from_id(small(id)?);
    Some(match wire.right.as_ref()? {
        Right::Management(v1::Unit {}) => Requirement::Management,
        Right::Namespace(right) => {
            let set = |all: &v1::CapabilitySet| {
                let ids = all.capabilities.iter();
                ids.map(|id| NamespaceCapability::from_id(small(*id)?))
                    .collect::<Option<Vec<_>>>()
                    // A set without capabilities would hold for everybody.
                    .filter(|all| !all.is_empty())
            };
            Requirement::Namespace {
                namespace: right.namespace.clone(),
                any: right.any.iter().map(set).collect::<Option<_>>()?,
            }
        }
        Right::NodePool(right) => Requirement::NodePool {
            node_pool: right.node_pool.clone(),
            capability: NodePoolCapability::from_id(small(right.capability)?)?,
        },
        Right::HostVolume(right) => {
            let any = right.any.iter();
            let any = any.map(|id| HostVolumeCapability::from_id(small(*id)?));
            Requirement::HostVolume {
                volume: right.volume.clone(),
                any: any.collect::<Option<_>>()?,
            }
        }
        Right::Variable(right) => Requirement::Variable {
            namespace: right.namespace.clone(),
            path: right.path.clone(),
            capability: VariableCapability::from_id(small(right.capability)?)?,
        },
        Right::Node(id) => Requirement::Node(level(*id)?),
        Right::Agent(id) => Requirement::Agent(level(*id)?),
        Right::OperatorLevel(id) => Requirement::OperatorLevel(level(*id)?),
        Right::Operator(id) => Requirement::Operator(OperatorCapability::from_id(small(*id)?)?),
    })
}

impl Access {
    /// The caller of a change, as `snapshot` has it; `None` where it is refused. Where access
    /// control is on here, a caller of a server where it is off is refused: one server with another
    /// configuration opens no write.
    pub(crate) fn caller_again(
        &self,
        recheck: &Recheck,
        snapshot: &Snapshot,
        now: UnixNanos,
    ) -> Option<Asker> {
        if !self.is_on() {
            return Some(self.open(snapshot));
        }
        match &recheck.caller {
            Caller::Open => None,
            Caller::Anonymous { address } => Some(self.anonymous(snapshot, *address)),
            Caller::Token { accessor_id, .. } => self.by_accessor(snapshot, accessor_id, now).ok(),
            Caller::Workload(workload) => self.workload_again(snapshot, workload, now).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::State;

    use super::*;

    fn recheck(caller: Caller, requirements: Vec<Requirement>) -> Recheck {
        Recheck {
            caller,
            requirements,
        }
    }

    #[test]
    fn an_origin_is_read_as_it_was_written() {
        let requirements = vec![
            Requirement::Management,
            Requirement::Namespace {
                namespace: "dev".to_owned(),
                any: vec![
                    vec![NamespaceCapability::SubmitJob],
                    vec![NamespaceCapability::ListJobs, NamespaceCapability::ReadJob],
                ],
            },
            Requirement::NodePool {
                node_pool: "gpu".to_owned(),
                capability: NodePoolCapability::Delete,
            },
            Requirement::HostVolume {
                volume: "data".to_owned(),
                any: vec![HostVolumeCapability::MountReadonly],
            },
            Requirement::Variable {
                namespace: "dev".to_owned(),
                path: "app/db".to_owned(),
                capability: VariableCapability::Destroy,
            },
            Requirement::Node(Level::Write),
            Requirement::Agent(Level::Read),
            Requirement::OperatorLevel(Level::Write),
            Requirement::Operator(OperatorCapability::SnapshotSave),
        ];
        let token = Caller::Token {
            accessor_id: "a".into(),
            kind: AclTokenKind::Client,
        };
        let address = [10, 0, 0, 1].into();
        for caller in [token, Caller::Open, Caller::Anonymous { address }] {
            let origin = Origin::Caller(recheck(caller.clone(), requirements.clone()));
            let Ok(Origin::Caller(read)) = origin_from_wire(&origin.to_wire()) else {
                panic!("it is a caller");
            };
            assert_eq!(
                (read.caller, read.requirements),
                (caller, requirements.clone())
            );
        }
    }

    #[test]
    fn an_unknown_right_is_refused_and_never_dropped() {
        let right = v1::requirement::Right::Namespace(v1::NamespaceRight {
            namespace: "dev".to_owned(),
            any: vec![v1::CapabilitySet {
                capabilities: vec![NamespaceCapability::ReadJob.id().into(), 63],
            }],
        });
        let empty = v1::requirement::Right::Namespace(v1::NamespaceRight {
            namespace: "dev".to_owned(),
            any: vec![v1::CapabilitySet::default()],
        });
        for right in [Some(right), Some(empty), None] {
            let mut caller = v1::Caller::default();
            caller.set_kind(v1::caller::Kind::Open);
            caller.requirements = vec![v1::Requirement { right }];
            let origin = Some(v1::asker::Origin::Caller(caller));
            origin_from_wire(&v1::Asker { origin }).expect_err("it cannot be judged");
        }
        origin_from_wire(&v1::Asker::default()).expect_err("it has no origin");
    }

    #[test]
    fn a_server_without_access_control_opens_no_write_of_one_with_it() {
        let snapshot = State::new().snapshot();
        let open = recheck(Caller::Open, Vec::new());
        let now = UnixNanos(1);
        let is_known = |is_on, recheck: &Recheck| {
            let access = Access::new(is_on);
            access.caller_again(recheck, &snapshot, now).is_some()
        };
        assert!(is_known(false, &open));
        assert!(!is_known(true, &open));
        let gone = Caller::Token {
            accessor_id: "gone".into(),
            kind: AclTokenKind::Management,
        };
        let gone = recheck(gone, Vec::new());
        assert!(!is_known(true, &gone));
    }
}
