//! Rights in a namespace.

use crate::capability::{CapabilitySet, capabilities};

/// A set of capabilities in a namespace.
pub type NamespaceCapabilities = CapabilitySet<NamespaceCapability>;

capabilities! {
    /// A right in a namespace; the number is its bit in a [`NamespaceCapabilities`].
    NamespaceCapability {
        Deny = 0 "deny",
        ListJobs = 1 "list-jobs",
        ParseJob = 2 "parse-job",
        ReadJob = 3 "read-job",
        SubmitJob = 4 "submit-job",
        DispatchJob = 5 "dispatch-job",
        ReadLogs = 6 "read-logs",
        ReadFs = 7 "read-fs",
        AllocExec = 8 "alloc-exec",
        AllocNodeExec = 9 "alloc-node-exec",
        AllocLifecycle = 10 "alloc-lifecycle",
        SentinelOverride = 11 "sentinel-override",
        CsiRegisterPlugin = 12 "csi-register-plugin",
        CsiWriteVolume = 13 "csi-write-volume",
        CsiReadVolume = 14 "csi-read-volume",
        CsiListVolume = 15 "csi-list-volume",
        CsiMountVolume = 16 "csi-mount-volume",
        ListScalingPolicies = 17 "list-scaling-policies",
        ReadScalingPolicy = 18 "read-scaling-policy",
        ReadJobScaling = 19 "read-job-scaling",
        ScaleJob = 20 "scale-job",
        SubmitRecommendation = 21 "submit-recommendation",
        HostVolumeCreate = 22 "host-volume-create",
        HostVolumeRegister = 23 "host-volume-register",
        HostVolumeRead = 24 "host-volume-read",
        HostVolumeWrite = 25 "host-volume-write",
        HostVolumeDelete = 26 "host-volume-delete",
        RegisterJob = 27 "register-job",
        RevertJob = 28 "revert-job",
        DeregisterJob = 29 "deregister-job",
        PurgeJob = 30 "purge-job",
        EvaluateJob = 31 "evaluate-job",
        PlanJob = 32 "plan-job",
        StableJob = 33 "stable-job",
        TagJobVersion = 34 "tag-job-version",
        FailDeployment = 35 "fail-deployment",
        PauseDeployment = 36 "pause-deployment",
        PromoteDeployment = 37 "promote-deployment",
        UnblockDeployment = 38 "unblock-deployment",
        CancelDeployment = 39 "cancel-deployment",
        SetAllocHealthDeployment = 40 "set-alloc-health-deployment",
        GcAllocation = 41 "gc-allocation",
        PauseAllocation = 42 "pause-allocation",
        ForcePeriodicJob = 43 "force-periodic-job",
        DeleteServiceRegistration = 44 "delete-service-registration",
    }
    levels: &[
        ("deny", &[Self::Deny]),
        ("read", READ),
        ("write", WRITE),
        ("scale", SCALE),
    ];
    implied: &[
        (Self::HostVolumeWrite, &[
            Self::HostVolumeRegister,
            Self::HostVolumeCreate,
            Self::HostVolumeDelete,
            Self::HostVolumeRead,
        ]),
        (Self::HostVolumeRegister, &[Self::HostVolumeCreate, Self::HostVolumeRead]),
        (Self::HostVolumeCreate, &[Self::HostVolumeRead]),
        (Self::SubmitJob, PARTS_OF_SUBMIT),
    ];
}

use NamespaceCapability as C;

/// `policy = "read"`.
const READ: &[C] = &[
    C::ListJobs,
    C::ParseJob,
    C::ReadJob,
    C::CsiListVolume,
    C::CsiReadVolume,
    C::ListScalingPolicies,
    C::ReadScalingPolicy,
    C::ReadJobScaling,
    C::HostVolumeRead,
];

/// `policy = "write"`: all of [`READ`], and more.
const WRITE: &[C] = &[
    C::ListJobs,
    C::ParseJob,
    C::ReadJob,
    C::CsiListVolume,
    C::CsiReadVolume,
    C::ListScalingPolicies,
    C::ReadScalingPolicy,
    C::ReadJobScaling,
    C::HostVolumeRead,
    C::SubmitJob,
    C::DispatchJob,
    C::ReadLogs,
    C::ReadFs,
    C::AllocExec,
    C::AllocLifecycle,
    C::CsiWriteVolume,
    C::CsiMountVolume,
    C::ScaleJob,
    C::SubmitRecommendation,
    C::HostVolumeCreate,
];

/// `policy = "scale"`.
const SCALE: &[C] = &[
    C::ListScalingPolicies,
    C::ReadScalingPolicy,
    C::ReadJobScaling,
    C::ScaleJob,
    C::ReadJob,
    C::SubmitRecommendation,
];

/// Finer capabilities: `submit-job` suffices wherever one of them does.
const PARTS_OF_SUBMIT: &[C] = &[
    C::ParseJob,
    C::ScaleJob,
    C::RegisterJob,
    C::RevertJob,
    C::DeregisterJob,
    C::PurgeJob,
    C::EvaluateJob,
    C::PlanJob,
    C::StableJob,
    C::TagJobVersion,
    C::FailDeployment,
    C::PauseDeployment,
    C::PromoteDeployment,
    C::UnblockDeployment,
    C::CancelDeployment,
    C::SetAllocHealthDeployment,
    C::GcAllocation,
    C::PauseAllocation,
    C::ForcePeriodicJob,
    C::DeleteServiceRegistration,
];
