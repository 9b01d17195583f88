//! The child: request, confinement, work, answer.

use std::io::Read;

use protocol_error_chain::chain;

use crate::confine::{self, Profile};
use crate::frame::{self, FrameError};
use crate::hang_up;
use crate::report::{Progress, Report, cut, write};
use crate::verb::Work;

/// The child has nobody to answer to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Descriptor 0 ended without a request.
    #[error("no request on descriptor 0: noded starts this program, people do not")]
    NoRequest,
    /// Descriptor 1 cannot be written.
    #[error("cannot answer")]
    Answer(#[source] std::io::Error),
    /// The answer of our own making is no frame.
    #[error("cannot write the answer as a frame")]
    Encode(#[source] FrameError),
}

/// Does one piece of work: reads the request from descriptor 0, confines this process to the
/// `profile` of that request, and writes the answer to descriptor 1.
///
/// # Errors
/// There was no request, or nobody reads the answer. A failure of the work is an answer.
pub fn serve<W: Work>(
    profile: impl FnOnce(&W) -> Profile,
    work: impl FnOnce(&W, &mut Progress) -> Result<W::Answer, String>,
) -> Result<(), ServeError> {
    let limits = W::VERB.limits();
    let report = match begin(profile)? {
        Err(problem) => Report::Refused(problem),
        Ok(request) => match work(&request, &mut Progress::default()) {
            Ok(answer) => Report::Done(answer),
            Err(problem) => Report::Failed(cut(&problem).to_owned()),
        },
    };
    let bytes = match frame::encode(&report, limits.answer_bytes) {
        Err(error @ FrameError::TooLarge { .. }) => {
            let problem = format!("the result is too large: {error}");
            frame::encode(&Report::<W::Answer>::Failed(problem), limits.answer_bytes)
        }
        bytes => bytes,
    };
    let bytes = bytes.map_err(ServeError::Encode)?;
    write(&bytes).map_err(ServeError::Answer)
}

/// The request, with this process confined; or the reason why it does not begin.
fn begin<W: Work>(profile: impl FnOnce(&W) -> Profile) -> Result<Result<W, String>, ServeError> {
    let limits = W::VERB.limits();
    if let Err(error) = confine::limit(&limits) {
        return Ok(Err(chain(&error)));
    }
    // Descriptor 0 unbuffered: the standard library's reader would take more than the frame.
    let mut input = Descriptor;
    let request = match frame::read(&mut input, limits.request_bytes) {
        Ok(None) => return Err(ServeError::NoRequest),
        Ok(Some(content)) => frame::decode::<W>(&content),
        Err(error) => Err(error),
    };
    let request = match request {
        Ok(request) => request,
        Err(error) => return Ok(Err(format!("the request: {}", chain(&error)))),
    };
    let confined = confine::shut_in(&profile(&request), hang_up::watch);
    Ok(confined.map(|()| request).map_err(|error| chain(&error)))
}

/// Descriptor 0.
struct Descriptor;

impl Read for Descriptor {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), buffer)?)
    }
}
