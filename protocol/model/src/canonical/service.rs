//! Defaults of services and their checks.

use crate::canonical::{JobContext, defaults, set_if_empty};
use crate::service::{CheckRestart, Service, ServiceCheck};

impl Service {
    pub(super) fn canonicalize(&mut self, job: &JobContext, group: &str, task: Option<&str>) {
        self.name = match self.name.as_str() {
            "" => job.service_name(group, task),
            name => job.expand_service_name(name, group, task),
        };
        set_if_empty(&mut self.provider, "consul");
        set_if_empty(&mut self.address_mode, "auto");
        set_if_empty(&mut self.on_update, "require_healthy");
        if self.provider == "consul" {
            set_if_empty(&mut self.cluster, defaults::CLUSTER);
        }
        if let Some(restart) = &mut self.check_restart {
            restart.canonicalize();
        }
        for check in &mut self.checks {
            check.canonicalize(&self.name, &self.on_update, self.check_restart.as_ref());
        }
    }
}

impl ServiceCheck {
    fn canonicalize(&mut self, service: &str, on_update: &str, restart: Option<&CheckRestart>) {
        if self.name.is_empty() {
            self.name = format!("service: {service:?} check");
        }
        set_if_empty(&mut self.on_update, on_update);
        if self.check_restart.is_none() {
            self.check_restart = restart.cloned();
        }
        if let Some(restart) = &mut self.check_restart {
            restart.canonicalize();
        }
    }
}

impl CheckRestart {
    fn canonicalize(&mut self) {
        self.grace.get_or_insert(defaults::CHECK_RESTART_GRACE);
    }
}
