//! The replicated log: frozen entries, histories made of them, outcomes, checkpoints.

use std::sync::Arc;

use controlplane_state::command::{AccessCommand, AclAuthMethods, AclTokens, OneTimeTokens};
use controlplane_state::{Command, Outcome, Stamped, State, Tables, codec};
use hack_testkit::{World, jobs, nodes};
use protocol_model::JobType;
use zstd::stream::read::Decoder;

use super::{bytes_of, files};

/// The uncompressed head of a checkpoint.
const CHECKPOINT_HEADER_BYTES: usize = 36;

/// Each frozen entry of the log.
pub(crate) fn entries() -> Vec<Vec<u8>> {
    let mut frozen = files("controlplane/state/tests/golden/v1", "");
    frozen.extend(files("controlplane/state/tests/golden/v3", ""));
    frozen.extend(files("controlplane/state/tests/golden/v4", ""));
    frozen.extend(files("controlplane/state/tests/golden/v5", ""));
    // Versions of a whole state lie beside them; they are no entries.
    frozen.retain(|(name, _)| !name.starts_with("checkpoint"));
    bytes_of(frozen)
}

/// Frozen entries in an order and a form in which they make sense to each other: a life of one node
/// and one job, and what access control has. Also what the state refused of it, in words.
fn history() -> (Vec<Vec<u8>>, Vec<String>) {
    const ORDER: &[&str] = &[
        "cluster_init",
        "acl_bootstrap",
        "namespace_upsert",
        "scheduler_config_set",
        "node_hello",
        "node_synced",
        "job_register",
        "plan_apply",
        "alloc_updates",
        "job_stability",
        "job_evaluate",
        "heartbeat_missed",
        "allocs_stop",
        "job_deregister",
        "gc_collect",
        "root_key_upsert",
        "acl_policies_upsert",
        "acl_roles_create",
        "acl_tokens_create",
        "acl_auth_methods_upsert",
        "acl_binding_rules_create",
        "one_time_token_make",
    ];
    let mut files = files("controlplane/state/tests/golden/v1", "");
    files.extend(super::files("controlplane/state/tests/golden/v4", ""));
    let mut state = State::new();
    let (mut entries, mut refusals) = (Vec::new(), Vec::new());
    for (index, name) in (1..).zip(ORDER) {
        let file = files
            .iter()
            .find(|(file, _)| *file == format!("{name}.bin"));
        let (_, frozen) = file.expect("the entry is frozen");
        let mut stamped: Stamped = codec::decode(frozen).expect("a frozen entry");
        fit(&mut stamped.command, state.tables());
        entries.push(codec::encode(&stamped).expect("an entry"));
        if let Outcome::Refused(refusal) = state.apply(index, stamped).outcome {
            refusals.push(format!("{name}: {refusal}"));
        }
    }
    (entries, refusals)
}

/// Makes a frozen command refer to what is there.
fn fit(command: &mut Command, tables: &Tables) {
    let alloc = tables.allocs().next().map(|alloc| alloc.id);
    let epoch_of = |node| tables.node(node).map(|record| record.session.epoch);
    match command {
        Command::NodeSynced(synced) => {
            synced.epoch = epoch_of(synced.node).unwrap_or(synced.epoch);
            synced.changed.clear();
            synced.unchanged.clear();
        }
        Command::JobRegister(register) => register.enforce_index = None,
        Command::JobStability { key, version, .. } => {
            *version = tables.job(key).map_or(0, |job| job.version);
        }
        Command::PlanApply(plan) => {
            plan.snapshot_index = tables.index();
            plan.updated.clear();
            plan.changed.clear();
            plan.preempted.clear();
            plan.deployment_changes.clear();
            let open = tables.evals().find(|eval| !eval.status.is_terminal());
            plan.eval_id = open.map(|eval| eval.id);
            plan.evals.clear();
            for placed in &mut plan.placed {
                let placed = Arc::make_mut(placed);
                placed.spec = tables.job_spec(&placed.job_key()).unwrap_or(placed.spec);
            }
        }
        Command::AllocUpdates { batches } => {
            for batch in batches {
                batch.epoch = epoch_of(batch.node).unwrap_or(batch.epoch);
                batch.seq = 1;
                for report in &mut batch.reports {
                    report.id = alloc.unwrap_or(report.id);
                }
            }
        }
        Command::AllocsStop { allocs, .. } => {
            for (id, _) in allocs {
                *id = alloc.unwrap_or(*id);
            }
        }
        Command::Access(command) => fit_access(command, tables),
        _ => {}
    }
}

fn fit_access(command: &mut AccessCommand, tables: &Tables) {
    match command {
        AccessCommand::RootKeyUpsert(upsert) => upsert.replaces = None,
        AccessCommand::Tokens(AclTokens::Create { tokens }) => {
            let sealed = tokens.iter_mut().filter_map(|token| token.sealed.as_mut());
            sealed.for_each(|sealed| sealed.key = 1);
        }
        AccessCommand::Tokens(AclTokens::Login { token, .. }) => {
            token.sealed.iter_mut().for_each(|sealed| sealed.key = 1);
        }
        AccessCommand::AuthMethods(AclAuthMethods::Upsert { methods }) => {
            let sealed = methods.iter_mut().filter_map(|it| it.sealed.as_mut());
            sealed.for_each(|sealed| sealed.key = 1);
        }
        AccessCommand::OneTimeTokens(OneTimeTokens::Make { accessor_id, .. }) => {
            let token = tables.acl_tokens().find(|token| token.expiration.is_none());
            accessor_id.clone_from(&token.expect("a token").accessor_id);
        }
        _ => {}
    }
}

/// The entries of that history.
fn ordered_entries() -> Vec<Vec<u8>> {
    history().0
}

/// What the state refuses of it.
pub(crate) fn refusals() -> Vec<String> {
    history().1
}

/// Whole histories: the ordered entries, and each entry on its own behind the first one.
pub(crate) fn histories() -> Vec<Vec<u8>> {
    let with_length = |entry: &Vec<u8>| {
        let length = u16::try_from(entry.len()).expect("frozen entries are small");
        [&length.to_be_bytes()[..], entry].concat()
    };
    let ordered: Vec<Vec<u8>> = ordered_entries().iter().map(with_length).collect();
    let first = ordered[0].clone();
    let mut seeds = vec![ordered.concat()];
    seeds.extend(
        entries()
            .iter()
            .map(|entry| [first.clone(), with_length(entry)].concat()),
    );
    seeds
}

/// What the proposers of the ordered entries are told, and of those that are refused.
pub(crate) fn outcomes() -> Vec<Vec<u8>> {
    let mut state = State::new();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    let entries = [entries(), ordered_entries(), entries()].concat();
    for (index, entry) in (1..).zip(entries) {
        let stamped: Stamped = codec::decode(&entry).expect("a frozen entry");
        let applied = state.apply(index, stamped);
        let bytes = codec::encode_applied(&applied).expect("an outcome");
        seeds.push(bytes);
    }
    seeds
}

/// Checkpoints of an empty state, of a small cluster, and of what the ordered entries leave.
pub(crate) fn checkpoints() -> Vec<Vec<u8>> {
    let mut world = World::new();
    let first = world.add_node(nodes::node(1));
    world.add_node(nodes::node(2));
    world.register(jobs::job(JobType::Service, "web", 2));
    world.register(jobs::job(JobType::Batch, "sums", 1));
    world.silence(first);
    let mut replayed = State::new();
    for (index, entry) in (1..).zip(ordered_entries()) {
        replayed.apply(index, codec::decode(&entry).expect("a frozen entry"));
    }
    [
        State::new().snapshot(),
        world.snapshot(),
        replayed.snapshot(),
    ]
    .iter()
    .map(|snapshot| {
        let mut bytes = Vec::new();
        snapshot
            .write_checkpoint(&mut bytes)
            .expect("it is written");
        bytes
    })
    .collect()
}

/// The records of those checkpoints, without the checksum at the end.
pub(crate) fn checkpoint_records() -> Vec<Vec<u8>> {
    checkpoints()
        .iter()
        .map(|bytes| {
            let mut records = Vec::new();
            let mut decoder =
                Decoder::new(&bytes[CHECKPOINT_HEADER_BYTES..]).expect("it is compressed");
            std::io::Read::read_to_end(&mut decoder, &mut records).expect("whole");
            records.truncate(records.len() - 4);
            records
        })
        .collect()
}

/// Records of the servers' log as its segments hold them: a vote, entries, a truncation, and
/// positions; and each on its own.
pub(crate) fn segments() -> Vec<Vec<u8>> {
    let record = |sort: u8, body: &[u8]| {
        let length = u32::try_from(body.len()).expect("short");
        [&[sort], length.to_be_bytes().as_slice(), body].concat()
    };
    let entry = |index: u8| {
        record(
            1,
            &[1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, index],
        )
    };
    let truncated = record(3, &2_u64.to_be_bytes());
    let position = |sort: u8| record(sort, &[1, 1, 1]);
    let records = [
        record(2, &[1, 1, 1, 1]),
        entry(1),
        entry(2),
        truncated,
        entry(2),
        position(4),
        position(5),
    ];
    let mut seeds = records.to_vec();
    seeds.push(records.concat());
    seeds
}
