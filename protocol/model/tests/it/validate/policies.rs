//! Restarts, rescheduling, updates, migration, silent nodes.

use serde_json::{Value, json};

use super::{assert_refused, errors, of_group, of_task};
use crate::fixtures::service;

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn policies_are_refused_for() {
    let job_type = |kind: &str, group: Value| {
        crate::fixtures::service(json!({"Type": kind}), group, json!({}))
    };
    assert_refused(vec![
        (
            of_group(json!({"RestartPolicy": {"Mode": "retry"}})),
            "group \"web\" > restart > mode",
            "\"retry\" (allowed: fail, delay)",
        ),
        (
            of_group(json!({"RestartPolicy": {"Attempts": 0, "Mode": "delay"}})),
            "group \"web\" > restart",
            "wait for nothing",
        ),
        (
            of_group(json!({"RestartPolicy": {"Attempts": 100, "Delay": "1m"}})),
            "group \"web\" > restart",
            "do not fit into an interval of 30m0s",
        ),
        (
            of_group(json!({"ReschedulePolicy": {"Attempts": 3, "Interval": "1h"}})),
            "group \"web\" > reschedule",
            "unlimited",
        ),
        (
            of_group(json!({"ReschedulePolicy": {"Delay": "1s"}})),
            "group \"web\" > reschedule > delay",
            "at least 5s",
        ),
        (
            of_group(json!({"ReschedulePolicy": {"DelayFunction": "linear"}})),
            "group \"web\" > reschedule > delay_function",
            "linear",
        ),
        (
            job_type(
                "batch",
                json!({"ReschedulePolicy": {"Attempts": 5, "Interval": "20s"}}),
            ),
            "group \"web\" > reschedule",
            "only 4 do",
        ),
        (
            job_type(
                "system",
                json!({"ReschedulePolicy": {"Attempts": 1, "Interval": "1h"}}),
            ),
            "group \"web\" > reschedule",
            "no other node",
        ),
        (
            job_type("batch", json!({"Update": {}})),
            "group \"web\" > update",
            "not updated",
        ),
        (
            of_group(json!({"Update": {"AutoPromote": true}})),
            "group \"web\" > update",
            "needs canaries",
        ),
        (
            of_group(json!({"Update": {"HealthCheck": "ping"}})),
            "group \"web\" > update > health_check",
            "ping",
        ),
        (
            of_group(json!({"Update": {"MinHealthyTime": "5m"}})),
            "group \"web\" > update > min_healthy_time",
            "less than healthy_deadline",
        ),
        (
            of_group(json!({"Update": {"ProgressDeadline": "1m"}})),
            "group \"web\" > update > progress_deadline",
            "more than healthy_deadline",
        ),
        (
            job_type("batch", json!({"Migrate": {}})),
            "group \"web\" > migrate",
            "only for service",
        ),
        (
            of_group(json!({"Disconnect": {"LostAfter": "1h", "StopOnClientAfter": "1h"}})),
            "group \"web\"",
            "exclude each other",
        ),
        (
            of_group(json!({"Disconnect": {"LostAfter": "1h"}, "MaxClientDisconnect": "1h"})),
            "group \"web\" > disconnect > lost_after",
            "given twice",
        ),
        (
            of_group(json!({"MaxClientDisconnect": "1h", "StopAfterClientDisconnect": "1h"})),
            "group \"web\"",
            "exclude each other",
        ),
        (
            of_group(json!({"Disconnect": {"StopOnClientAfter": "1h"},
                "MaxClientDisconnect": "1h"})),
            "group \"web\"",
            "exclude each other",
        ),
        (
            of_group(json!({"Disconnect": {"LostAfter": "1h"},
                "StopAfterClientDisconnect": "1h"})),
            "group \"web\"",
            "exclude each other",
        ),
        (
            of_group(json!({"Disconnect": {"StopOnClientAfter": "1h"},
                "StopAfterClientDisconnect": "1h"})),
            "group \"web\" > disconnect > stop_on_client_after",
            "given twice",
        ),
        (
            of_group(json!({"Disconnect": {"StopOnClientAfter": "2999ms"}})),
            "group \"web\" > disconnect > stop_on_client_after",
            "must be at least 3s, is 2.999s",
        ),
        (
            of_group(json!({"Disconnect": {"Replace": true}, "StopAfterClientDisconnect": 0})),
            "group \"web\" > stop_after_client_disconnect",
            "must be at least 3s, is 0s",
        ),
        (
            of_group(json!({"Disconnect": {"Replace": true}, "PreventRescheduleOnLost": true})),
            "group \"web\" > disconnect > replace",
            "given twice",
        ),
        (
            of_group(json!({"Disconnect": {"LostAfter": "1h"}, "PreventRescheduleOnLost": true})),
            "group \"web\" > disconnect > replace",
            "given twice",
        ),
        (
            of_group(json!({"Disconnect": {"Reconcile": "coin"}})),
            "group \"web\" > disconnect > reconcile",
            "coin",
        ),
        (
            job_type("system", json!({"StopAfterClientDisconnect": "1h"})),
            "group \"web\" > stop_after_client_disconnect",
            "service and batch",
        ),
        (
            job_type("sysbatch", json!({"StopAfterClientDisconnect": "1h"})),
            "group \"web\" > stop_after_client_disconnect",
            "service and batch jobs, not sysbatch jobs",
        ),
        (
            job_type(
                "sysbatch",
                json!({"Disconnect": {"StopOnClientAfter": "1h"}}),
            ),
            "group \"web\" > disconnect > stop_on_client_after",
            "service and batch jobs, not sysbatch jobs",
        ),
    ]);
}

#[test]
fn policies_with_a_meaning_are_not_refused() {
    for group in [
        json!({"ReschedulePolicy": {"Attempts": 0, "Unlimited": false}}),
        json!({"RestartPolicy": {"Attempts": 0}}),
        json!({"Update": {"MaxParallel": 0}}),
        json!({"Update": {"ProgressDeadline": 0}}),
        json!({"StopAfterClientDisconnect": "1h", "PreventRescheduleOnLost": true}),
        json!({"Disconnect": {"Replace": false}, "PreventRescheduleOnLost": false}),
        json!({"Disconnect": {"StopOnClientAfter": "3s", "Replace": false}}),
        json!({"Update": {"Canary": 1, "AutoPromote": true, "AutoRevert": true}}),
        json!({"ReschedulePolicy": {"Unlimited": false, "Attempts": 3, "Interval": "6h",
            "Delay": "1m", "MaxDelay": "4m", "DelayFunction": "fibonacci"}}),
    ] {
        assert_eq!(errors(&of_group(group.clone())), [], "{group}");
    }
}

#[test]
fn progress_deadline_below_a_kill_timeout_is_refused() {
    let update = |deadline: &str| {
        json!({"HealthyDeadline": "1s", "MinHealthyTime": "500ms",
        "ProgressDeadline": deadline})
    };
    let slow = |timeout: &str| json!({"KillTimeout": timeout});
    let place = "group \"web\" > update > progress_deadline";
    let hooked = json!({"Update": update("2s"), "Tasks": [
        {"Name": "main", "Driver": "exec", "KillTimeout": "1s"},
        {"Name": "hook", "Driver": "exec", "KillTimeout": "3s",
            "Lifecycle": {"Hook": "poststop"}}]});
    let everywhere = json!({"Update": update("2s")});
    assert_refused(vec![
        (
            service(json!({}), json!({"Update": update("2s")}), slow("10s")),
            place,
            "2s is less than the kill_timeout of task \"server\" (10s)",
        ),
        // Every service has the default deadline.
        (
            of_task(slow("20m")),
            place,
            "10m0s is less than the kill_timeout of task \"server\" (20m0s)",
        ),
        (of_group(hooked), place, "task \"hook\" (3s)"),
        (
            service(everywhere, json!({}), slow("3s")),
            place,
            "task \"server\" (3s)",
        ),
        (
            service(
                json!({}),
                json!({"Update": {"MaxParallel": 0}}),
                slow("20m"),
            ),
            place,
            "task \"server\" (20m0s)",
        ),
    ]);
    for job in [
        service(json!({}), json!({"Update": update("10s")}), slow("10s")),
        service(json!({}), json!({"Update": update("0s")}), slow("20m")),
        service(json!({"Type": "batch"}), json!({}), slow("20m")),
        service(json!({"Type": "system"}), json!({}), slow("20m")),
        service(
            json!({"Type": "system"}),
            json!({"Update": update("2s")}),
            slow("10s"),
        ),
        service(json!({"Type": "sysbatch"}), json!({}), slow("20m")),
    ] {
        assert_eq!(errors(&job), [], "{job:?}");
    }
}
