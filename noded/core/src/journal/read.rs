//! A record from its JSON. The kind comes first in what `encode` writes, so that the fields can be
//! read as what they are; the derived code would first keep all of them as values of any kind.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, Job, SpecHash, UnixNanos};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::JournalRecord;
use crate::alloc_runner::PersistedAlloc;
use crate::key::{BootId, RunKey, SessionEpoch, Watermark};
use crate::task_runner::PersistedTask;
use crate::time::Moment;
use crate::update_batcher::AckedState;

/// The field that comes first.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum First {
    Kind,
}

/// The kinds of [`JournalRecord`], as records spell them.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Watermark,
    Boot,
    SessionEpoch,
    Confirmed,
    Heard,
    Spec,
    Desired,
    Foreign,
    DestroyWanted,
    Destroyed,
    Intent,
    Alloc,
    Task,
    Acknowledged,
}

/// Reads what is left of a record as the fields of one kind.
macro_rules! fields {
    ($rest:ident, $kind:ident { $($field:ident: $type:ty),+ }) => {{
        #[derive(Deserialize)]
        struct Fields {
            $($field: $type),+
        }
        let Fields { $($field),+ } = Fields::deserialize($rest)?;
        Ok(JournalRecord::$kind { $($field),+ })
    }};
}

impl<'de> Deserialize<'de> for JournalRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(KindFirst)
    }
}

struct KindFirst;

impl<'de> Visitor<'de> for KindFirst {
    type Value = JournalRecord;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record with its kind first")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JournalRecord, A::Error> {
        let first = map.next_key()?;
        let First::Kind = first.ok_or_else(|| A::Error::missing_field("kind"))?;
        let kind: Kind = map.next_value()?;
        let rest = MapAccessDeserializer::new(map);
        match kind {
            Kind::Watermark => fields!(rest, Watermark { at: Watermark }),
            Kind::Boot => fields!(rest, Boot { boot: BootId }),
            Kind::SessionEpoch => fields!(
                rest,
                SessionEpoch {
                    epoch: SessionEpoch
                }
            ),
            Kind::Confirmed => fields!(rest, Confirmed { at: Moment }),
            Kind::Heard => fields!(rest, Heard { at: UnixNanos }),
            Kind::Spec => fields!(rest, Spec { hash: SpecHash, job: Arc<Job> }),
            Kind::Desired => fields!(
                rest,
                Desired {
                    alloc: Box<Allocation>,
                    spec: SpecHash,
                    root_key: Option<u32>
                }
            ),
            Kind::Foreign => fields!(rest, Foreign { allocs: BTreeSet<AllocId> }),
            Kind::DestroyWanted => fields!(rest, DestroyWanted { alloc: AllocId }),
            Kind::Destroyed => fields!(rest, Destroyed { alloc: AllocId }),
            Kind::Intent => fields!(rest, Intent { run: RunKey }),
            Kind::Alloc => fields!(
                rest,
                Alloc {
                    alloc: AllocId,
                    state: PersistedAlloc
                }
            ),
            Kind::Task => {
                fields!(rest, Task { alloc: AllocId, task: String, state: Box<PersistedTask> })
            }
            Kind::Acknowledged => {
                fields!(rest, Acknowledged { alloc: AllocId, state: Box<AckedState> })
            }
        }
    }
}
