//! Defaults of tasks: resources, restarts, identity, output, templates, artifacts.

use crate::artifact::Artifact;
use crate::canonical::{
    JobContext, canonicalize_affinities, canonicalize_constraints, defaults, set_if_empty,
};
use crate::identity::{Vault, WorkloadIdentity};
use crate::logs::LogConfig;
use crate::policy::RestartPolicy;
use crate::resources::Resources;
use crate::task::Task;
use crate::template::Template;
use crate::volume::VolumeMount;

impl Task {
    pub(super) fn canonicalize(&mut self, job: &JobContext, group: &str, restart: &RestartPolicy) {
        canonicalize_constraints(&mut self.constraints);
        canonicalize_affinities(&mut self.affinities);
        self.resources.get_or_insert_default().canonicalize();
        self.restart_policy = Some(self.restart_policy.take().unwrap_or_default().over(restart));
        self.kill_timeout.get_or_insert(defaults::KILL_TIMEOUT);
        self.log_config.get_or_insert_default().canonicalize();
        self.canonicalize_identity();
        for service in &mut self.services {
            service.canonicalize(job, group, Some(&self.name));
        }
        for artifact in &mut self.artifacts {
            artifact.canonicalize();
        }
        for template in &mut self.templates {
            template.canonicalize();
        }
        for mount in &mut self.volume_mounts {
            mount.canonicalize();
        }
        if let Some(vault) = &mut self.vault {
            vault.canonicalize();
        }
        if let Some(consul) = &mut self.consul {
            set_if_empty(&mut consul.cluster, defaults::CLUSTER);
        }
        if let Some(plugin) = &mut self.csi_plugin_config {
            // Some clients send 0 where nothing was said.
            let given = plugin.health_timeout.filter(|timeout| !timeout.is_zero());
            plugin.health_timeout = Some(given.unwrap_or(defaults::CSI_HEALTH_TIMEOUT));
        }
        for scaling in &mut self.scaling_policies {
            scaling.canonicalize(job, group, Some(&self.name));
        }
    }

    /// The default identity may be written as one of the list; it has its own place.
    fn canonicalize_identity(&mut self) {
        let is_default =
            |identity: &WorkloadIdentity| matches!(identity.name.as_str(), "" | "default");
        if self.identity.is_none()
            && let Some(place) = self.identities.iter().position(is_default)
        {
            self.identity = Some(self.identities.remove(place));
        }
        let identity = self.identity.get_or_insert_default();
        set_if_empty(&mut identity.name, defaults::IDENTITY_NAME);
        if identity.audience.is_empty() {
            identity
                .audience
                .push(defaults::IDENTITY_AUDIENCE.to_owned());
        }
    }
}

impl Resources {
    fn canonicalize(&mut self) {
        let cores = *self.cores.get_or_insert(0);
        self.cpu
            .get_or_insert(if cores > 0 { 0 } else { defaults::CPU_MHZ });
        self.memory_mb.get_or_insert(defaults::MEMORY_MB);
        self.memory_max_mb.get_or_insert(0);
        self.disk_mb.get_or_insert(0);
        self.iops.get_or_insert(0);
        self.secrets_mb.get_or_insert(0);
        for network in &mut self.networks {
            network.canonicalize();
        }
        for device in &mut self.devices {
            device.count.get_or_insert(1);
            canonicalize_constraints(&mut device.constraints);
            canonicalize_affinities(&mut device.affinities);
        }
        if let Some(numa) = &mut self.numa {
            set_if_empty(&mut numa.affinity, "none");
        }
    }
}

impl LogConfig {
    fn canonicalize(&mut self) {
        self.disabled = Some(self.disabled());
        self.max_files.get_or_insert(defaults::LOG_FILES);
        self.max_file_size_mb
            .get_or_insert(defaults::LOG_FILE_SIZE_MB);
    }
}

impl Artifact {
    fn canonicalize(&mut self) {
        self.getter_insecure.get_or_insert(false);
        let source = self.getter_source.get_or_insert_default().clone();
        let mode = self.getter_mode.get_or_insert_with(|| "any".to_owned());
        if self.relative_dest.is_none() {
            // One file goes into the directory under its own name; a tree becomes the directory.
            let base = match mode.as_str() {
                "file" => source
                    .trim_end_matches('/')
                    .rsplit('/')
                    .next()
                    .unwrap_or_default(),
                _ => "",
            };
            self.relative_dest = Some(format!("local/{base}"));
        }
    }
}

impl Template {
    fn canonicalize(&mut self) {
        self.source_path.get_or_insert_default();
        self.dest_path.get_or_insert_default();
        self.embedded_tmpl.get_or_insert_default();
        let mode = self.change_mode.get_or_insert_with(|| "restart".to_owned());
        let signal_default = if mode == "signal" { "SIGHUP" } else { "" };
        let signal = self
            .change_signal
            .get_or_insert_with(|| signal_default.to_owned());
        signal.make_ascii_uppercase();
        if let Some(script) = &mut self.change_script {
            script.command.get_or_insert_default();
            script
                .timeout
                .get_or_insert(defaults::CHANGE_SCRIPT_TIMEOUT);
            script.fail_on_error.get_or_insert(false);
        }
        self.splay.get_or_insert(defaults::TEMPLATE_SPLAY);
        self.perms
            .get_or_insert_with(|| defaults::TEMPLATE_PERMS.to_owned());
        // The node agent's. Job files say -1, and some clients nothing.
        self.uid.get_or_insert(-1);
        self.gid.get_or_insert(-1);
        self.left_delim.get_or_insert_with(|| "{{".to_owned());
        self.right_delim.get_or_insert_with(|| "}}".to_owned());
        self.envvars.get_or_insert(false);
        self.vault_grace.get_or_insert_default();
        self.once.get_or_insert(false);
        self.err_missing_key.get_or_insert(false);
    }
}

impl VolumeMount {
    fn canonicalize(&mut self) {
        self.volume.get_or_insert_default();
        self.destination.get_or_insert_default();
        self.read_only.get_or_insert(false);
        self.propagation_mode
            .get_or_insert_with(|| "private".to_owned());
        self.selinux_label.get_or_insert_default();
    }
}

impl Vault {
    fn canonicalize(&mut self) {
        self.namespace.get_or_insert_default();
        set_if_empty(&mut self.cluster, defaults::CLUSTER);
        self.env.get_or_insert(true);
        self.disable_file.get_or_insert(false);
        self.change_mode.get_or_insert_with(|| "restart".to_owned());
        self.change_signal
            .get_or_insert_with(|| "SIGHUP".to_owned())
            .make_ascii_uppercase();
        self.allow_token_expiration.get_or_insert(false);
    }
}
