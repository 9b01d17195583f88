//! Deployment of one job over several regions. Each region has its own copy of the job, with what
//! the region's block says.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::{Job, JobType};
use crate::nullable;
use crate::nullable::or_default;
use crate::policy::UpdateStrategy;

/// How a job is rolled out over regions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Multiregion {
    /// Order and reaction to failure.
    pub strategy: Option<MultiregionStrategy>,
    /// The regions in order.
    #[serde(with = "nullable")]
    pub regions: Vec<MultiregionRegion>,
}

/// Order and reaction to failure of a multi-region rollout.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MultiregionStrategy {
    /// Regions deployed at the same time; 0 is all.
    pub max_parallel: Option<u32>,
    /// `""`, `fail_all` or `fail_local`.
    #[serde(deserialize_with = "or_default")]
    pub on_failure: String,
}

/// One region of a multi-region job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MultiregionRegion {
    /// The region's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The count of groups that have none.
    pub count: Option<u32>,
    /// Its datacenters.
    #[serde(with = "nullable")]
    pub datacenters: Vec<String>,
    /// Its node pool.
    #[serde(deserialize_with = "or_default")]
    pub node_pool: String,
    /// Metadata that is added there.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
}

/// A job is not meant for a region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotForRegion {
    /// The region that it was to be copied for.
    pub region: String,
    /// The regions that it names.
    pub named: Vec<String>,
}

impl fmt::Display for NotForRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.named.iter().map(|name| format!("{name:?}")).collect();
        let (region, named) = (&self.region, named.join(", "));
        write!(
            f,
            "multiregion has no block for region {region:?}, which this is: it names {named}"
        )
    }
}

impl Error for NotForRegion {}

impl Job {
    /// The regions that the job names; none where it belongs to one region only.
    pub fn regions(&self) -> &[MultiregionRegion] {
        self.multiregion
            .as_ref()
            .map_or(&[], |multiregion| &multiregion.regions)
    }

    /// Whether its versions are rolled out over several regions, which wait for each other. Job
    /// types without deployments never wait.
    pub fn waits_for_regions(&self) -> bool {
        let mut updates = self.task_groups.iter().filter_map(|it| it.update.as_ref());
        self.job_type == JobType::Service
            && !self.stop
            && !self.regions().is_empty()
            && updates.any(|update: &UpdateStrategy| update.max_parallel() > 0)
    }

    /// Makes the job the copy for one of the regions that it names: its datacenters, node pool and
    /// metadata, and its count where a group has 0. A job that names no regions stays as it is.
    ///
    /// # Errors
    /// It names others only.
    pub fn copy_for_region(&mut self, region: &str) -> Result<(), NotForRegion> {
        let regions = self.regions();
        if regions.is_empty() {
            return Ok(());
        }
        let own = regions.iter().find(|it| it.name == region).cloned();
        let Some(own) = own else {
            let named = regions.iter().map(|it| it.name.clone()).collect();
            let region = region.to_owned();
            return Err(NotForRegion { region, named });
        };
        region.clone_into(&mut self.region);
        if !own.datacenters.is_empty() {
            self.datacenters = own.datacenters;
        }
        if !own.node_pool.is_empty() {
            self.node_pool = own.node_pool;
        }
        self.meta.extend(own.meta);
        for group in &mut self.task_groups {
            if group.count == Some(0) {
                group.count = own.count.or(group.count);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job() -> Job {
        let job = json!({
            "ID": "web", "Datacenters": ["*"], "NodePool": "default",
            "Meta": {"a": "job", "b": "job"},
            "TaskGroups": [{"Name": "zero", "Count": 0}, {"Name": "two", "Count": 2}],
            "Multiregion": {"Regions": [
                {"Name": "west", "Count": 5, "Datacenters": ["w1"], "NodePool": "w",
                 "Meta": {"b": "west", "c": "west"}},
                {"Name": "east"}
            ]}
        });
        serde_json::from_value(job).expect("a job")
    }

    fn counts(job: &Job) -> Vec<Option<u32>> {
        job.task_groups.iter().map(|group| group.count).collect()
    }

    #[test]
    fn a_copy_has_what_its_region_s_block_says() {
        let mut west = job();
        west.copy_for_region("west").expect("it is named");
        assert_eq!((&*west.region, &*west.node_pool), ("west", "w"));
        assert_eq!(west.datacenters, ["w1"]);
        assert_eq!(counts(&west), [Some(5), Some(2)]);
        let meta: Vec<&str> = west.meta.values().map(String::as_str).collect();
        assert_eq!(meta, ["job", "west", "west"]);
    }

    #[test]
    fn a_block_that_says_nothing_leaves_the_job_as_it_is() {
        let mut east = job();
        east.copy_for_region("east").expect("it is named");
        let before = job();
        assert_eq!(
            (&east.datacenters, &east.node_pool, &east.meta),
            (&before.datacenters, &before.node_pool, &before.meta)
        );
        assert_eq!(counts(&east), [Some(0), Some(2)]);
    }

    #[test]
    fn a_region_without_a_block_is_refused_with_those_that_have_one() {
        let error = job().copy_for_region("global").expect_err("not named");
        let text = "multiregion has no block for region \"global\", which this is: \
                    it names \"west\", \"east\"";
        assert_eq!(error.to_string(), text);
    }
}
