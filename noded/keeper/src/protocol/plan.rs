//! A plan as bytes: what lies in the sealed memory file beside a `Spawn`.

use isolation::{PLAN_VERSIONS, Plan};

/// Why bytes are no plan, or a plan no bytes.
#[derive(Debug, thiserror::Error)]
pub enum PlanBytesError {
    #[error("the plan could not be encoded")]
    Encode(#[source] postcard::Error),
    #[error("the plan could not be decoded")]
    Decode(#[source] postcard::Error),
    #[error(
        "the plan has version {version}, only {} to {} are applied",
        PLAN_VERSIONS.start(), PLAN_VERSIONS.end()
    )]
    Version { version: u32 },
    #[error("{bytes} bytes follow the plan")]
    TrailingBytes { bytes: usize },
}

/// # Errors
/// Where the plan cannot be encoded.
pub fn encode_plan(plan: &Plan) -> Result<Vec<u8>, PlanBytesError> {
    postcard::to_stdvec(plan).map_err(PlanBytesError::Encode)
}

/// # Errors
/// Where the bytes are not exactly one plan of a known version.
pub fn decode_plan(bytes: &[u8]) -> Result<Plan, PlanBytesError> {
    // The version comes first: what follows it may look different in another one.
    let (version, _) = postcard::take_from_bytes::<u32>(bytes).map_err(PlanBytesError::Decode)?;
    if !PLAN_VERSIONS.contains(&version) {
        return Err(PlanBytesError::Version { version });
    }
    let (plan, rest) = postcard::take_from_bytes(bytes).map_err(PlanBytesError::Decode)?;
    match rest.len() {
        0 => Ok(plan),
        bytes => Err(PlanBytesError::TrailingBytes { bytes }),
    }
}
