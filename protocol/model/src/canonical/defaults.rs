//! The values of what a job file leaves out. They are Nomad's, because job files rely on them.

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Region of a job that names none.
pub const REGION: &str = "global";
/// Node pool of a job that names none.
pub const NODE_POOL: &str = "default";
/// Datacenters of a job that names none: all.
pub const DATACENTERS: &str = "*";
/// Priority of a job that has none, out of 1 to 100.
pub const PRIORITY: i32 = 50;
/// The host network of ports that name none.
pub const HOST_NETWORK: &str = "default";
/// The name of every configured cluster (Vault, Consul) that is not named.
pub const CLUSTER: &str = "default";

/// CPU share of a task, in MHz.
pub const CPU_MHZ: u64 = 100;
/// Memory of a task, in MB.
pub const MEMORY_MB: u64 = 300;
/// Shared disk of a group, in MB.
pub const EPHEMERAL_DISK_MB: u64 = 300;
/// Output files kept per stream.
pub const LOG_FILES: u32 = 10;
/// Size of an output file, in MB.
pub const LOG_FILE_SIZE_MB: u32 = 10;
/// Time between asking a task to stop and killing it.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Weight of an affinity.
pub const AFFINITY_WEIGHT: i32 = 50;
/// Weight of a spread.
pub const SPREAD_WEIGHT: i32 = 50;

/// Restarts per interval of tasks that run until stopped.
pub const SERVICE_RESTART_ATTEMPTS: u32 = 2;
/// The restart interval of tasks that run until stopped.
pub const SERVICE_RESTART_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// Restarts per interval of tasks that run to completion.
pub const BATCH_RESTART_ATTEMPTS: u32 = 3;
/// The restart interval of tasks that run to completion.
pub const BATCH_RESTART_INTERVAL: Duration = DAY;
/// Wait before a restart.
pub const RESTART_DELAY: Duration = Duration::from_secs(15);

/// Wait before the first reschedule of a service.
pub const SERVICE_RESCHEDULE_DELAY: Duration = Duration::from_secs(30);
/// The longest wait before a reschedule of a service.
pub const SERVICE_RESCHEDULE_DELAY_MAX: Duration = HOUR;
/// Reschedules per interval of a batch allocation.
pub const BATCH_RESCHEDULE_ATTEMPTS: u32 = 1;
/// The reschedule interval of a batch allocation.
pub const BATCH_RESCHEDULE_INTERVAL: Duration = DAY;
/// Wait before the reschedule of a batch allocation.
pub const BATCH_RESCHEDULE_DELAY: Duration = Duration::from_secs(5);

/// Allocations updated or migrated at the same time.
pub const UPDATE_MAX_PARALLEL: u32 = 1;
/// Wait between the steps of a system job's update.
pub const UPDATE_STAGGER: Duration = Duration::from_secs(30);
/// How long an allocation must be healthy before it counts.
pub const MIN_HEALTHY_TIME: Duration = Duration::from_secs(10);
/// When an allocation that is not healthy yet counts as unhealthy.
pub const HEALTHY_DEADLINE: Duration = Duration::from_secs(5 * 60);
/// When a deployment without progress fails.
pub const PROGRESS_DEADLINE: Duration = Duration::from_secs(10 * 60);

/// The longest random wait before a changed template is acted upon.
pub const TEMPLATE_SPLAY: Duration = Duration::from_secs(5);
/// Permissions of a rendered template.
pub const TEMPLATE_PERMS: &str = "0644";
/// How long the program of change mode `script` may take.
pub const CHANGE_SCRIPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait after a start before failing checks count.
pub const CHECK_RESTART_GRACE: Duration = SECOND;
/// How long a storage plugin may take to become healthy.
pub const CSI_HEALTH_TIMEOUT: Duration = Duration::from_secs(30);

/// The audience of the default workload identity. Relying parties of existing clusters expect it.
pub const IDENTITY_AUDIENCE: &str = "nomadproject.io";
/// The name of the default workload identity.
pub const IDENTITY_NAME: &str = "default";
