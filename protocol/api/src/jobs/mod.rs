//! Jobs.

mod changed;
mod diff;
mod dispatch;
mod list;
mod plan;
mod scale;
mod statuses;
mod versions;

use protocol_model::nullable::or_default;
use protocol_model::{AllocationListStub, Deployment, Evaluation, Job, JobSubmission, VersionTag};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::endpoint::Parameter;
use crate::needs::{
    DISPATCH_JOB, EVALUATE_JOB, FORCE_PERIODIC, LIST_JOBS, PARSE_JOB, PLAN_JOB, READ_JOB,
    READ_JOB_SCALE, READ_SOME_JOB, REGISTER_JOB, REVERT_JOB, SCALE_JOB, STABLE_JOB, STOP_JOB,
    TAG_VERSION, VALIDATE_JOB,
};
use crate::operation::operations;
use crate::parameters::{ALL_OF_NAME, NEXT_TOKEN, NO_SHUTDOWN_DELAY, PER_PAGE, PREFIX, REVERSE};
use crate::written::Written;

pub use changed::{Evaluated, Forced, Registered, Validated};
pub use diff::{DiffType, FieldDiff, GroupDiff, JobDiff, ObjectDiff, TaskDiff};
pub use dispatch::{DispatchRequest, Dispatched};
pub use list::{ChildCounts, GroupCounts, JobCounts, JobListStub};
pub use plan::{Annotations, DesiredUpdates, FilteredNodes, GroupExplanation, JobPlan, NearMiss};
pub use scale::{GroupScale, JobScale, ScaleRequest};
pub use statuses::{
    JobStatusesAlloc, JobStatusesDeployment, JobStatusesHealth, JobStatusesJob, NamespacedId,
    StatusesRequest,
};
pub use versions::{RevertRequest, StableRequest, TagRequest, VersionSubmission, Versions};

const DIFFS: &[Parameter] = &[
    Parameter::flag("diffs", "with the differences between versions"),
    Parameter::number(
        "diff_version",
        "differences to this version instead of the one before",
    ),
    Parameter::text(
        "diff_tag",
        "differences to the version with this tag instead of the one before",
    ),
];
const DISPATCH: &[Parameter] = &[Parameter::text(
    "idempotency_token",
    "a dispatch with the token of an earlier one launches nothing and answers the child of that one",
)];
/// The largest body that is read as a payload. A payload above 16 KiB is refused in words.
const PAYLOAD_BODY_BYTES_MAX: usize = 1024 * 1024;
const STOP: &[Parameter] = &[
    Parameter::flag("purge", "forget the job at once"),
    Parameter::number(
        "eval_priority",
        "priority of the evaluation; the job's if absent",
    ),
    NO_SHUTDOWN_DELAY,
];

operations! {
    /// list jobs
    ListJobs {} -> Vec<JobListStub> = get("/v1/jobs", LIST_JOBS).filterable().parameters(&[
        PREFIX, PER_PAGE, NEXT_TOKEN, REVERSE, Parameter::flag("meta", "with `Meta`"),
    ]);
    /// list jobs with the statuses of their allocations, the newest change first
    JobStatuses {} -> Vec<JobStatusesJob> = get("/v1/jobs/statuses", READ_JOB).filterable().parameters(&[
        PREFIX, PER_PAGE, NEXT_TOKEN, REVERSE,
        Parameter::flag("include_children", "with the jobs that were launched from templates"),
    ]);
    /// the same of the jobs that the body names (`Jobs`, `IncludeChildren`)
    JobStatusesOf {} (StatusesRequest) -> Vec<JobStatusesJob> = put("/v1/jobs/statuses", READ_SOME_JOB)
        .filterable().of_state().parameters(&[PER_PAGE, NEXT_TOKEN, REVERSE]);
    /// register a job, or a new version of it (`EnforceIndex`, `PreserveCounts`, `EvalPriority`)
    RegisterJob {} (JobRequest) -> Registered = put("/v1/jobs", REGISTER_JOB);
    /// turn a job file into JSON: `null` for what it does not say; with `Canonicalize`, all
    /// defaults
    ParseJob {} (ParseRequest) -> Value = put("/v1/jobs/parse", PARSE_JOB).of_server();
    /// name every mistake of a job at once, an unknown namespace and a changed type included
    ValidateJob {} (JobRequest) -> Validated = put("/v1/validate/job", VALIDATE_JOB);
    /// read a job
    ReadJob { id } -> Job = get("/v1/job/{id...}", READ_JOB);
    /// register a new version of a job
    UpdateJob { id } (JobRequest) -> Registered = put("/v1/job/{id...}", REGISTER_JOB);
    /// stop a job; for an unknown one the answer has an empty `EvalID`
    StopJob { id } -> Evaluated = delete("/v1/job/{id...}", STOP_JOB).parameters(STOP);
    /// say what registering a job would do, and write nothing
    PlanJob { id } (JobRequest) -> JobPlan = put("/v1/job/{id...}/plan", PLAN_JOB);
    /// evaluate a job again (`EvalOptions.ForceReschedule`)
    EvaluateJob { id } (EvaluateRequest) -> Evaluated =
        put("/v1/job/{id...}/evaluate", EVALUATE_JOB).optional_body();
    /// launch a periodic job now, although it prohibits overlap; twice in a second is one launch
    ForcePeriodic { id } -> Forced = put("/v1/job/{id...}/periodic/force", FORCE_PERIODIC);
    /// launch a child of a parameterized job (`Payload` in base64, `Meta`, `IdPrefixTemplate`,
    /// `Priority`)
    DispatchJob { id } (DispatchRequest) -> Dispatched =
        put("/v1/job/{id...}/dispatch", DISPATCH_JOB).optional_body().parameters(DISPATCH);
    /// launch a child of a parameterized job; the body is the payload
    DispatchPayload { id } -> Dispatched = put("/v1/job/{id...}/dispatch/payload", DISPATCH_JOB)
        .bytes(PAYLOAD_BODY_BYTES_MAX).parameters(DISPATCH);
    /// list the versions of a job, the newest first
    JobVersions { id } -> Versions = get("/v1/job/{id...}/versions", READ_JOB).parameters(DIFFS);
    /// register an earlier version of a job again, as its newest one
    RevertJob { id } (RevertRequest) -> Registered = put("/v1/job/{id...}/revert", REVERT_JOB);
    /// mark a version of a job as good to revert to, or not
    SetJobStability { id } (StableRequest) -> Written = put("/v1/job/{id...}/stable", STABLE_JOB);
    /// give a version of a job a tag; the newest where `Version` is absent
    TagVersion { id, tag } (TagRequest) -> VersionTag =
        put("/v1/job/{id...}/versions/{tag}/tag", TAG_VERSION);
    /// take a tag from its version
    UntagVersion { id, tag } -> VersionTag = delete("/v1/job/{id...}/versions/{tag}/tag", TAG_VERSION);
    /// read the counts of a job's groups, and their scaling events
    ReadJobScale { id } -> JobScale = get("/v1/job/{id...}/scale", READ_JOB_SCALE);
    /// change the count of a group (`Count`, `Target.Group`), or note an event of it
    ScaleJob { id } (ScaleRequest) -> Registered = put("/v1/job/{id...}/scale", SCALE_JOB);
    /// read the text that a version was made from
    JobSubmissionOf { id } -> VersionSubmission = get("/v1/job/{id...}/submission", READ_JOB)
        .parameters(&[Parameter::number("version", "the version; the newest if absent")]);
    /// list the allocations of a job
    JobAllocations { id } -> Vec<AllocationListStub> = get("/v1/job/{id...}/allocations", READ_JOB).parameters(&[ALL_OF_NAME]);
    /// list the evaluations of a job
    JobEvaluations { id } -> Vec<Evaluation> = get("/v1/job/{id...}/evaluations", READ_JOB);
    /// list the deployments of a job
    JobDeployments { id } -> Vec<Deployment> = get("/v1/job/{id...}/deployments", READ_JOB).parameters(&[ALL_OF_NAME]);
    /// read the newest deployment of a job, `null` if there is none
    LatestDeployment { id } -> Option<Deployment> = get("/v1/job/{id...}/deployment", READ_JOB);
    /// count the allocations of a job by group and status
    JobSummary { id } -> JobCounts = get("/v1/job/{id...}/summary", READ_JOB);
    /// list the actions of a job's tasks
    JobActions { id } -> Vec<JobAction> = get("/v1/job/{id...}/actions", READ_JOB);
}

/// An action that can be run in a job's tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobAction {
    /// The action's name, unique within its task.
    pub name: String,
    pub task_name: String,
    pub task_group_name: String,
}

/// The body of a registration, a plan or a validation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobRequest {
    /// The job; required.
    pub job: Option<Job>,
    /// Whether `job_modify_index` has to be the job's.
    #[serde(deserialize_with = "or_default")]
    pub enforce_index: bool,
    /// The index that the registered job must have; 0 = there is no such job yet.
    #[serde(deserialize_with = "or_default")]
    pub job_modify_index: u64,
    /// The priority of the evaluation; 0 = the job's.
    #[serde(deserialize_with = "or_default")]
    pub eval_priority: i32,
    /// Whether groups that exist keep the count that they have.
    #[serde(deserialize_with = "or_default")]
    pub preserve_counts: bool,
    /// The source of the job.
    pub submission: Option<JobSubmission>,
    /// For plans: whether the difference is wanted.
    #[serde(deserialize_with = "or_default")]
    pub diff: bool,
}

/// The body of [`ParseJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ParseRequest {
    /// The job file.
    #[serde(rename = "JobHCL", deserialize_with = "or_default")]
    pub job_hcl: String,
    /// The text of a variable file.
    #[serde(deserialize_with = "or_default")]
    pub variables: String,
    /// Whether defaults are filled in.
    #[serde(deserialize_with = "or_default")]
    pub canonicalize: bool,
    /// Whether the file is HCL1, which is refused.
    #[serde(rename = "HCLv1", deserialize_with = "or_default")]
    pub hcl_v1: bool,
}

/// The body of [`EvaluateJob`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EvaluateRequest {
    /// The job's id, or empty.
    #[serde(rename = "JobID", deserialize_with = "or_default")]
    pub job_id: String,
    /// How it is evaluated.
    #[serde(deserialize_with = "or_default")]
    pub eval_options: EvalOptions,
}

/// How a job is evaluated.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EvalOptions {
    /// Whether failed allocations are replaced whatever their `reschedule` says.
    #[serde(deserialize_with = "or_default")]
    pub force_reschedule: bool,
}
