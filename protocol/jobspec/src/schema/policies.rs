//! How work is restarted, replaced, updated and scaled.

use super::{Schema, count, duration, flag, free, labelled, schema, size, text};
use crate::decode::{DecodedBlock, Problems};
use serde_json::{Value as Json, json};

pub(super) static RESTART: Schema = schema(
    "restart",
    &[
        count("attempts", "Attempts"),
        duration("interval", "Interval"),
        duration("delay", "Delay"),
        text("mode", "Mode"),
        flag("render_templates", "RenderTemplates"),
    ],
);

pub(super) static RESCHEDULE: Schema = schema(
    "reschedule",
    &[
        count("attempts", "Attempts"),
        duration("interval", "Interval"),
        duration("delay", "Delay"),
        text("delay_function", "DelayFunction"),
        duration("max_delay", "MaxDelay"),
        flag("unlimited", "Unlimited"),
    ],
);

pub(super) static DISCONNECT: Schema = schema(
    "disconnect",
    &[
        duration("lost_after", "LostAfter"),
        duration("stop_on_client_after", "StopOnClientAfter"),
        flag("replace", "Replace"),
        text("reconcile", "Reconcile"),
    ],
);

pub(super) static UPDATE: Schema = schema(
    "update",
    &[
        duration("stagger", "Stagger"),
        count("max_parallel", "MaxParallel"),
        text("health_check", "HealthCheck"),
        duration("min_healthy_time", "MinHealthyTime"),
        duration("healthy_deadline", "HealthyDeadline"),
        duration("progress_deadline", "ProgressDeadline"),
        count("canary", "Canary"),
        flag("auto_revert", "AutoRevert"),
        flag("auto_promote", "AutoPromote"),
    ],
);

pub(super) static MIGRATE: Schema = schema(
    "migrate",
    &[
        count("max_parallel", "MaxParallel"),
        text("health_check", "HealthCheck"),
        duration("min_healthy_time", "MinHealthyTime"),
        duration("healthy_deadline", "HealthyDeadline"),
    ],
);

pub(super) static EPHEMERAL_DISK: Schema = schema(
    "ephemeral_disk",
    &[
        flag("sticky", "Sticky"),
        flag("migrate", "Migrate"),
        size("size", "SizeMB"),
    ],
);

/// Horizontal scaling, in groups.
pub(super) static SCALING: Schema = schema(
    "scaling",
    &[
        count("min", "Min"),
        count("max", "Max"),
        flag("enabled", "Enabled"),
        text("type", "Type"),
        free("policy", "Policy"),
    ],
)
.finish(finish_scaling);

fn finish_scaling(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    default_type(block, "horizontal", "a group", problems);
    if !block.has("max") {
        let hint = "it is the largest count that the autoscaler may set".to_owned();
        problems.report(&block.span, "`scaling` needs `max`", Some(hint));
    }
}

/// Vertical scaling, in tasks: the label says of what.
pub(super) static TASK_SCALING: Schema = labelled(
    "scaling",
    "~resource",
    &[
        count("min", "Min"),
        count("max", "Max"),
        flag("enabled", "Enabled"),
        text("type", "Type"),
        free("policy", "Policy"),
    ],
)
.finish(finish_task_scaling);

fn finish_task_scaling(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    let Some(resource) = block.take("~resource") else {
        return;
    };
    let resource = resource.as_str().map(str::to_ascii_lowercase);
    match resource.as_deref() {
        Some("cpu") => default_type(block, "vertical_cpu", "`scaling \"cpu\"`", problems),
        Some("mem") => default_type(block, "vertical_mem", "`scaling \"mem\"`", problems),
        _ => problems.report(
            &block.span,
            "a task scales by `cpu` or `mem`",
            Some("write `scaling \"cpu\" { ... }`".to_owned()),
        ),
    }
}

/// The only type that a policy may have where it stands is also its default.
fn default_type(
    block: &mut DecodedBlock,
    only: &'static str,
    subject: &str,
    problems: &mut Problems<'_>,
) {
    let given = block.object.insert("Type".to_owned(), json!(only));
    let given = given.as_ref().and_then(Json::as_str).unwrap_or_default();
    if !given.is_empty() && given != only {
        let message = format!("`{given}` is not the type of {subject}");
        let hint = format!("leave `type` out, or write `{only}`");
        problems.report(&block.span_of("type"), message, Some(hint));
    }
}

/// A task has at most one policy for each resource.
pub(super) fn refuse_second_scaling(block: &DecodedBlock, problems: &mut Problems<'_>) {
    let Some(Json::Array(policies)) = block.object.get("ScalingPolicies") else {
        return;
    };
    let placed = policies.iter().zip(block.spans_of("scaling"));
    for (kind, name) in [("vertical_cpu", "cpu"), ("vertical_mem", "mem")] {
        let of_kind = placed.clone().filter(|(policy, _)| policy["Type"] == kind);
        for (_, second) in of_kind.skip(1) {
            let message = format!("there are two `scaling` blocks named `{name}`");
            problems.report(second, message, None);
        }
    }
}
