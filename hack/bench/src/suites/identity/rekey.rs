//! All variables move to another root key, in this process: the time that each entry keeps the
//! thread of the log busy.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use controlplane_state::command::{
    REKEY_VALUES_MAX, ResealedVariable, RootKeyUpsert, Rotation, VariableApply, VariableChange,
    VariablesRekey,
};
use controlplane_state::{RootKey, RootKeyState, Sealed, VariableKey};
use protocol_model::UnixNanos;

use super::NAME;
use crate::floor::Quantiles;
use crate::row::Row;
use crate::suites::in_memory::{InMemory, cpu_time};

const GOAL_ENTRY_MS: f64 = 5.0;
/// The value of a variable: of the size of a password and its user.
const VALUE: &str = "correct horse battery staple, and a user";

/// Entries of as many values as one has, applied while a reader holds the state before.
///
/// # Errors
/// If an entry is refused, or a value keeps its key.
pub(super) fn measure(variables: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let variables = u32::try_from(variables)?;
    let figure = |what: &str| format!("rotate -full of {variables} variables: {what}");
    eprintln!("-- {variables} variables in this process");
    let mut cluster = InMemory::new()?;
    cluster.apply(key(1, None).into())?;
    for number in 0..variables {
        let write = VariableApply {
            key: name(number),
            cas: None,
            lock_id: None,
            change: VariableChange::Write(sealed(1, number)),
        };
        cluster.apply(write.into())?;
    }
    cluster.apply(key(2, Some(1)).into())?;
    let (mut cpu, mut wall) = (Vec::new(), Vec::new());
    let numbers: Vec<u32> = (0..variables).collect();
    for numbers in numbers.chunks(REKEY_VALUES_MAX) {
        let variables = numbers.iter().map(|number| ResealedVariable {
            key: name(*number),
            replaces: (1, sealed(1, *number).nonce),
            sealed: sealed(2, *number),
        });
        let rekey = VariablesRekey {
            variables: variables.collect(),
        };
        // Readers hold the state before, as in a server: what is changed is copied first.
        let before = cluster.snapshot();
        let (used, begun) = (cpu_time()?, Instant::now());
        cluster.apply(rekey.into())?;
        wall.push(begun.elapsed());
        cpu.push(cpu_time()?.saturating_sub(used));
        drop(before);
    }
    let left = cluster.snapshot().sealed_with(1).variables;
    ensure!(left == 0, "{left} variables are sealed with the old key");
    let longest = |of: &[Duration]| of.iter().max().map_or(0.0, Duration::as_secs_f64) * 1e3;
    let p50 = Quantiles::of(wall.clone()).context("no entries")?.p50;
    rows.extend([
        Row::new(
            NAME,
            figure("longest entry applied, CPU"),
            longest(&cpu),
            "ms",
        )
        .at_most(GOAL_ENTRY_MS),
        Row::new(NAME, figure("longest entry applied"), longest(&wall), "ms"),
        Row::new(
            NAME,
            figure("entry applied, p50"),
            p50.as_secs_f64() * 1e3,
            "ms",
        ),
    ]);
    Ok(())
}

fn name(number: u32) -> VariableKey {
    VariableKey::new("default", format!("app/{number}"))
}

/// A value under a key, as long as a sealed one.
fn sealed(key: u32, number: u32) -> Sealed {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&number.to_be_bytes());
    nonce[4..8].copy_from_slice(&key.to_be_bytes());
    Sealed {
        key,
        nonce,
        bytes: vec![7; VALUE.len() + 33],
    }
}

fn key(number: u8, replaces: Option<u32>) -> RootKeyUpsert {
    let key = RootKey {
        id: format!("00000000-0000-4000-8000-0000000000{number:02}")
            .parse()
            .unwrap_or_default(),
        number: 0,
        kek_id: [7; 8],
        wrapped: vec![1],
        public_ed25519: vec![2],
        public_rsa: vec![3],
        state: RootKeyState::Active,
        create_time: UnixNanos::ZERO,
        publish_time: UnixNanos::ZERO,
        state_time: UnixNanos::ZERO,
        seals: 0,
        create_index: 0,
        modify_index: 0,
    };
    RootKeyUpsert {
        key,
        replaces,
        rotation: Rotation::Full,
    }
}
