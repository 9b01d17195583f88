//! What nodes say, and what is said of them.

use super::*;

pub(super) fn session_command(cluster: &Harness, step: Step) -> Command {
    let node = node_of(step);
    let number = node_number(step);
    let owes = cluster
        .tables()
        .node(node)
        .is_some_and(|record| record.node.status == NodeStatus::Initializing);
    // A report that is not owed is tried too, but mostly the node knocks first.
    if step.kind == 3 || (!owes && step.how % 8 != 7) {
        return Command::NodeHello(Box::new(if step.how.is_multiple_of(3) {
            let mut hello = registration(number);
            hello.nonce = [(step.how >> 8) as u8; 16];
            hello
        } else {
            knock(
                number,
                (step.how >> 8) as u8,
                epoch_of(cluster, node, step.how),
            )
        }));
    }
    let mut synced = NodeSynced {
        node,
        epoch: epoch_of(cluster, node, step.how),
        watch_index: if step.how.is_multiple_of(4) {
            cluster.index / 2
        } else {
            cluster.index
        },
        changed: Vec::new(),
        unchanged: Vec::new(),
        facts: None,
    };
    for (number, alloc) in (0u16..).zip(cluster.tables().allocs_on_node(node)) {
        match (step.how >> (number % 16)) % 4 {
            0 => synced
                .changed
                .push(report_of(cluster, alloc.id, step.how ^ number)),
            1 => {}
            _ => synced.unchanged.push(alloc.id),
        }
    }
    if step.how % 8 == 1 {
        synced
            .changed
            .push(report_of(cluster, some_alloc(cluster, step.how), step.how));
    }
    Command::NodeSynced(Box::new(synced))
}

pub(super) fn liveness_command(cluster: &mut Harness, step: Step) -> Command {
    let node = node_of(step);
    let epoch = epoch_of(cluster, node, step.how);
    let all = |cluster: &Harness| {
        (0..=NODES)
            .map(node_id)
            .map(|node| (node, epoch_of(cluster, node, 0)))
            .collect()
    };
    match (step.kind, step.how % 8) {
        (6, 0) => Command::HeartbeatMissed {
            nodes: all(cluster),
        },
        (6, _) => Command::HeartbeatMissed {
            nodes: vec![(node, epoch)],
        },
        (7, _) => {
            cluster.pass(Duration::from_secs(u64::from(step.how % 40)));
            Command::WindowExpired {
                nodes: vec![(node, epoch)],
            }
        }
        (8, 0..4) => Command::SyncRejected { node, epoch },
        (8, _) => Command::SyncDeadline {
            nodes: vec![(node, epoch)],
        },
        (_, _) => {
            let mut facts = facts(node_number(step));
            // Facts may shrink below what is placed: that is the host's doing.
            facts.node_resources.cpu.cpu_shares = i64::from(step.how % 1500);
            facts.computed_class = format!("v1:{}", step.how % 3);
            if step.how.is_multiple_of(5) {
                facts.node_pool = "batch".to_owned();
            }
            Command::NodeFacts {
                node,
                epoch,
                facts: Arc::new(facts),
            }
        }
    }
}

pub(super) fn reports_command(cluster: &Harness, step: Step) -> Command {
    let node = node_of(step);
    let class = if step.kind == 15 {
        UpdateClass::Typical
    } else {
        UpdateClass::Urgent
    };
    let session = cluster
        .tables()
        .node(node)
        .map(|node| node.session)
        .unwrap_or_default();
    let applied = match class {
        UpdateClass::Urgent => session.applied_urgent_seq,
        UpdateClass::Typical => session.applied_typical_seq,
    };
    let on_node = cluster.tables().allocs_on_node(node);
    let mut reports: Vec<AllocReport> = (0u16..)
        .zip(on_node)
        .filter(|(number, _)| (step.how >> (number % 16)).is_multiple_of(2))
        .map(|(number, alloc)| report_of(cluster, alloc.id, step.how.wrapping_add(number)))
        .collect();
    if step.how.is_multiple_of(7) {
        reports.push(report_of(cluster, some_alloc(cluster, step.how), step.how));
    }
    let batch = NodeBatch {
        node,
        epoch: epoch_of(cluster, node, step.how),
        class,
        seq: applied + u64::from(step.how % 3),
        reports,
    };
    Command::AllocUpdates {
        batches: vec![batch.clone(), batch],
    }
}

/// A leader's proposal about a drain, perhaps about one that is over.
fn drain_step(cluster: &Harness, step: Step, node: NodeId) -> Command {
    let snapshot = cluster.state.snapshot();
    let index = snapshot.node(node).map_or(0, |record| record.drain_index);
    let drain_index = index + u64::from(step.how.is_multiple_of(11));
    if step.how.is_multiple_of(3) {
        return Command::NodeDrainComplete { node, drain_index };
    }
    let marks = [DrainMark::Migrate, DrainMark::End, DrainMark::ForceStop];
    let on_node = snapshot.allocs_on_node(node).zip(marks.iter().cycle());
    let marks = DrainMarks {
        node,
        drain_index,
        marks: on_node.map(|(alloc, mark)| (alloc.id, *mark)).collect(),
    };
    Command::AllocsMigrate { nodes: vec![marks] }
}

pub(super) fn node_command(cluster: &Harness, step: Step) -> Command {
    let node = node_of(step);
    let eligibility = if step.how.is_multiple_of(2) {
        Eligibility::Eligible
    } else {
        Eligibility::Ineligible
    };
    match step.how % 7 {
        0..=2 => Command::NodeEligibility { node, eligibility },
        3 => Command::NodeDrainSet(NodeDrainSet {
            node,
            drain: step.how.is_multiple_of(5).then_some(DrainSpec {
                deadline: i64::from(step.how % 3) - 1,
                ignore_system_jobs: step.how.is_multiple_of(2),
            }),
            eligibility_after: eligibility,
            accessor_id: String::new(),
            meta: None,
        }),
        4 => drain_step(cluster, step, node),
        5 if step.how.is_multiple_of(3) => Command::NodePurge { node },
        _ => {
            let wish = DesiredTransition {
                migrate: Some(true),
                ..DesiredTransition::default()
            };
            let allocs = vec![(some_alloc(cluster, step.how), wish)];
            Command::AllocsStop {
                allocs,
                evals: Vec::new(),
            }
        }
    }
}
