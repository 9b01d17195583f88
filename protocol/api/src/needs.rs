//! The needs of the routes, by name: rows of one table (docs/http-api.md shows it).

use protocol_access::Level::{Read, Write};
use protocol_access::need::{Need, Scope};
use protocol_access::{
    NamespaceCapability as N, NodePoolCapability, OperatorCapability, VariableCapability,
};

pub(crate) const PUBLIC: Need = Need::Public;
pub(crate) const NOTHING: Need = Need::Nothing;
pub(crate) const SHOWN: Need = Need::Shown;
pub(crate) const TOKEN: Need = Need::Token;
pub(crate) const MANAGEMENT: Need = Need::Management;

/// In the namespace of the query.
macro_rules! needs {
    ($($name:ident = $scope:ident: $([$($capability:ident),+])|+;)+) => {
        $(pub(crate) const $name: Need =
            Need::Namespace(Scope::$scope, &[$(&[$(N::$capability),+]),+]);)+
    };
}

needs! {
    LIST_JOBS = Query: [ListJobs];
    READ_JOB = Query: [ReadJob];
    READ_SOME_JOB = Handler: [ReadJob];
    PARSE_JOB = Query: [ParseJob] | [SubmitJob];
    VALIDATE_JOB = Handler: [ReadJob];
    REGISTER_JOB = Handler: [SubmitJob] | [RegisterJob];
    PLAN_JOB = Handler: [SubmitJob] | [PlanJob];
    EVALUATE_JOB = Query: [SubmitJob] | [EvaluateJob];
    REVERT_JOB = Query: [SubmitJob] | [RevertJob];
    STABLE_JOB = Query: [SubmitJob] | [StableJob];
    TAG_VERSION = Query: [SubmitJob] | [TagJobVersion];
    STOP_JOB = Query: [SubmitJob] | [DeregisterJob] | [PurgeJob];
    DISPATCH_JOB = Query: [DispatchJob];
    FORCE_PERIODIC = Query: [DispatchJob] | [SubmitJob] | [ForcePeriodicJob];
    SCALE_JOB = Query: [SubmitJob] | [ScaleJob];
    READ_JOB_SCALE = Query: [ReadJob] | [ReadJobScaling];
    LIST_SCALING_POLICIES = Query: [ListScalingPolicies] | [ListJobs, ReadJob];
    READ_SCALING_POLICY = Handler: [ReadScalingPolicy] | [ListJobs, ReadJob];
    READ_ALLOC = Alloc: [ReadJob];
    READ_EVAL = Evaluation: [ReadJob];
    READ_DEPLOYMENT = Deployment: [ReadJob];
    FAIL_DEPLOYMENT = Deployment: [SubmitJob] | [FailDeployment];
    PAUSE_DEPLOYMENT = Deployment: [SubmitJob] | [PauseDeployment];
    PROMOTE_DEPLOYMENT = Deployment: [SubmitJob] | [PromoteDeployment];
    UNBLOCK_DEPLOYMENT = Deployment: [SubmitJob] | [UnblockDeployment];
    SET_ALLOC_HEALTH = Deployment: [SubmitJob] | [SetAllocHealthDeployment];
    ALLOC_LIFECYCLE = Alloc: [AllocLifecycle];
    GC_ALLOCATION = Alloc: [SubmitJob] | [GcAllocation];
    ALLOC_EXEC = Alloc: [AllocExec];
    JOB_ACTION = Query: [AllocExec];
    READ_LOGS = Alloc: [ReadLogs] | [ReadFs];
    READ_FS = Alloc: [ReadFs];
}

pub(crate) const READ_NAMESPACE: Need = Need::SomeOfNamespace;
pub(crate) const NODE_READ: Need = Need::Node(Read);
pub(crate) const NODE_WRITE: Need = Need::Node(Write);
pub(crate) const AGENT_READ: Need = Need::Agent(Read);
pub(crate) const OPERATOR_READ: Need = Need::OperatorLevel(Read);
pub(crate) const OPERATOR_WRITE: Need = Need::OperatorLevel(Write);
pub(crate) const SNAPSHOT_SAVE: Need = Need::Operator(OperatorCapability::SnapshotSave);
pub(crate) const KEYRING_READ: Need = Need::Operator(OperatorCapability::KeyringRead);
pub(crate) const KEYRING_ROTATE: Need = Need::Operator(OperatorCapability::KeyringRotate);
pub(crate) const KEYRING_DELETE: Need = Need::Operator(OperatorCapability::KeyringDelete);
pub(crate) const READ_POOL: Need = Need::NodePool(Scope::Path, NodePoolCapability::Read);
pub(crate) const WRITE_POOL: Need = Need::NodePool(Scope::Path, NodePoolCapability::Write);
pub(crate) const WRITE_SOME_POOL: Need = Need::NodePool(Scope::Handler, NodePoolCapability::Write);
pub(crate) const DELETE_POOL: Need = Need::NodePool(Scope::Path, NodePoolCapability::Delete);
pub(crate) const POOL_NODES: Need = Need::All(&[READ_POOL, NODE_READ]);
pub(crate) const READ_VARIABLE: Need = Need::Variable(Scope::Query, VariableCapability::Read);
pub(crate) const WRITE_VARIABLE: Need = Need::Variable(Scope::Handler, VariableCapability::Write);
pub(crate) const DESTROY_VARIABLE: Need =
    Need::Variable(Scope::Handler, VariableCapability::Destroy);
/// A right to one of the kinds of object that a search finds.
pub(crate) const SEARCH: Need = Need::Any(&[
    Need::Namespace(Scope::Handler, &[&[N::ReadJob], &[N::ListJobs]]),
    NODE_READ,
    Need::Variable(Scope::Handler, VariableCapability::List),
]);
