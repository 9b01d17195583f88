//! Defaults of groups: count, policies, disk, network ports, scaling.

use crate::canonical::{
    JobContext, canonicalize_affinities, canonicalize_constraints, canonicalize_spreads,
    default_count, defaults, policy, set_if_empty,
};
use crate::group::{EphemeralDisk, TaskGroup};
use crate::network::NetworkResource;
use crate::policy::RestartPolicy;
use crate::scaling::ScalingPolicy;

impl TaskGroup {
    pub(super) fn canonicalize(&mut self, job: &JobContext) {
        let count = self.count.unwrap_or_else(|| default_count(self));
        self.count = Some(count);
        canonicalize_constraints(&mut self.constraints);
        canonicalize_affinities(&mut self.affinities);
        canonicalize_spreads(&mut self.spreads);
        self.canonicalize_policies(job);
        self.ephemeral_disk.get_or_insert_default().canonicalize();
        for network in &mut self.networks {
            network.canonicalize();
        }
        for (name, volume) in &mut self.volumes {
            set_if_empty(&mut volume.name, name);
        }
        for service in &mut self.services {
            service.canonicalize(job, &self.name, None);
        }
        if let Some(scaling) = &mut self.scaling {
            scaling.min.get_or_insert(count);
            set_if_empty(&mut scaling.scaling_type, "horizontal");
            scaling.canonicalize(job, &self.name, None);
        }
        if let Some(consul) = &mut self.consul {
            set_if_empty(&mut consul.cluster, defaults::CLUSTER);
        }
        let restart = self
            .restart_policy
            .get_or_insert_with(|| RestartPolicy::default_for(job.job_type))
            .clone();
        for task in &mut self.tasks {
            task.canonicalize(job, &self.name, &restart);
        }
    }

    fn canonicalize_policies(&mut self, job: &JobContext) {
        let restart_defaults = RestartPolicy::default_for(job.job_type);
        self.restart_policy = Some(
            self.restart_policy
                .take()
                .unwrap_or_default()
                .over(&restart_defaults),
        );
        self.reschedule_policy = policy::group_reschedule(
            job.job_type,
            job.reschedule.as_ref(),
            self.reschedule_policy.take(),
        );
        self.update = policy::group_update(job.update.as_ref(), self.update.take());
        self.migrate =
            policy::group_migrate(job.job_type, job.migrate.as_ref(), self.migrate.take());
        if let Some(disconnect) = &mut self.disconnect {
            policy::canonicalize_disconnect(disconnect);
        }
        self.max_client_disconnect = policy::a_window(self.max_client_disconnect);
        self.prevent_reschedule_on_lost.get_or_insert(false);
    }
}

impl EphemeralDisk {
    fn canonicalize(&mut self) {
        self.sticky.get_or_insert(false);
        self.migrate.get_or_insert(false);
        self.size_mb.get_or_insert(defaults::EPHEMERAL_DISK_MB);
    }
}

impl NetworkResource {
    pub(super) fn canonicalize(&mut self) {
        self.mbits.get_or_insert(0);
        for port in self
            .reserved_ports
            .iter_mut()
            .chain(&mut self.dynamic_ports)
        {
            set_if_empty(&mut port.host_network, defaults::HOST_NETWORK);
        }
    }
}

impl ScalingPolicy {
    pub(super) fn canonicalize(&mut self, job: &JobContext, group: &str, task: Option<&str>) {
        self.enabled.get_or_insert(true);
        let coordinates = [
            ("Namespace", Some(job.namespace.as_str())),
            ("Job", Some(job.id.as_str())),
            ("Group", Some(group)),
            ("Task", task),
        ];
        for (key, value) in coordinates {
            if let Some(value) = value {
                self.target.insert(key.to_owned(), value.to_owned());
            }
        }
    }
}
