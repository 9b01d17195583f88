//! Several requests to the kernel in one datagram. The kernel handles them in order; each refusal
//! is an answer of its own, and only the last request asks for an acknowledgement, so that a batch
//! costs one send and few receives.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::Socket;
use rustix::io::Errno;

use crate::reply::{next_message, refusal};
use crate::request::{Message, NetlinkError};

/// Largest datagram that is received. The kernel's largest here is a link of about 2 KiB.
const DATAGRAM_BYTES: usize = 32 << 10;

/// One request of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step<M = RouteNetlinkMessage> {
    /// The end of the sentence "the kernel refused to ...".
    pub(crate) operation: &'static str,
    /// Flags beside `NLM_F_REQUEST`.
    pub(crate) flags: u16,
    pub(crate) message: M,
    /// A refusal that is not a failure.
    pub(crate) tolerated: Option<Errno>,
}

impl<M> Step<M> {
    pub(crate) const fn new(operation: &'static str, message: M) -> Self {
        Self {
            operation,
            flags: 0,
            message,
            tolerated: None,
        }
    }
}

/// Sends the steps and waits until the kernel has handled all of them. Returns what it answered
/// beside acknowledgements.
///
/// # Errors
/// The first refusal that is not tolerated. The steps behind it were handled all the same.
pub(crate) fn run<M: Message>(socket: &Socket, steps: &[Step<M>]) -> Result<Vec<M>, NetlinkError> {
    let operation = steps.first().map_or("do nothing", |step| step.operation);
    socket
        .send(&encode(steps), 0)
        .map_err(|source| NetlinkError::Send { operation, source })?;
    let mut answers = Answers::new(steps.len());
    while !answers.is_complete() {
        let mut datagram = Vec::with_capacity(DATAGRAM_BYTES);
        let (_, sender) = socket
            .recv_from(&mut datagram, 0)
            .map_err(|source| NetlinkError::Receive { operation, source })?;
        // Another process may send to this socket; only the kernel has port 0.
        if sender.port_number() == 0 {
            answers
                .on_datagram(&datagram)
                .map_err(|reason| NetlinkError::Malformed { operation, reason })?;
        }
    }
    answers.into_result(steps)
}

/// The datagram of a batch. The sequence number of a step is its place, from 1.
pub(crate) fn encode<M: Message>(steps: &[Step<M>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (sequence, step) in (1..).zip(steps) {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | step.flags;
        if usize::try_from(sequence) == Ok(steps.len()) {
            header.flags |= NLM_F_ACK;
        }
        header.sequence_number = sequence;
        let mut message =
            NetlinkMessage::new(header, NetlinkPayload::InnerMessage(step.message.clone()));
        message.finalize();
        let begin = bytes.len();
        bytes.resize(begin + message.buffer_len().next_multiple_of(4), 0);
        message.serialize(&mut bytes[begin..]);
    }
    bytes
}

/// The answers of the kernel to a batch so far, without any I/O.
#[derive(Debug)]
pub(crate) struct Answers<M = RouteNetlinkMessage> {
    /// How many steps there are; the answer to the last one ends the batch.
    steps: usize,
    is_complete: bool,
    messages: Vec<M>,
    /// Place of the step, from 0, and why the kernel refused it.
    refusals: Vec<(usize, Errno, Option<String>)>,
}

impl<M: NetlinkDeserializable> Answers<M> {
    pub(crate) const fn new(steps: usize) -> Self {
        Self {
            steps,
            is_complete: steps == 0,
            messages: Vec::new(),
            refusals: Vec::new(),
        }
    }

    const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes the next datagram. Messages of other requests are passed over.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8]) -> Result<(), String> {
        let mut rest = datagram;
        while let Some(message) = next_message::<M>(&mut rest)? {
            let (header, payload) = message.into_parts();
            let place = usize::try_from(header.sequence_number).unwrap_or(usize::MAX);
            if place == 0 || place > self.steps {
                continue;
            }
            match payload {
                NetlinkPayload::Error(error) => {
                    if let Some((errno, reason)) = refusal(header.flags, &error) {
                        self.refusals.push((place - 1, errno, reason));
                    }
                    self.is_complete |= place == self.steps;
                }
                // One answer per question is expected; more of them are no reason to grow.
                NetlinkPayload::InnerMessage(inner) if self.messages.len() < self.steps => {
                    self.messages.push(inner);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn into_result(self, steps: &[Step<M>]) -> Result<Vec<M>, NetlinkError> {
        for (place, errno, reason) in self.refusals {
            let step = &steps[place];
            if step.tolerated != Some(errno) {
                return Err(NetlinkError::Refused {
                    operation: step.operation,
                    reason,
                    source: errno,
                });
            }
        }
        Ok(self.messages)
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::link::LinkMessage;

    use super::*;

    fn step(operation: &'static str) -> Step {
        Step::new(
            operation,
            RouteNetlinkMessage::GetLink(LinkMessage::default()),
        )
    }

    /// `NLMSG_ERROR` for the step with this number, with this code.
    fn answer(sequence: u8, code: i32) -> Vec<u8> {
        let mut bytes = vec![36, 0, 0, 0, 2, 0, 0, 1, sequence, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend(code.to_le_bytes());
        bytes.extend([32, 0, 0, 0, 18, 0, 5, 0, sequence, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn answers(steps: &[Step], datagrams: &[Vec<u8>]) -> (bool, Option<String>) {
        let mut answers = <Answers>::new(steps.len());
        for datagram in datagrams {
            answers.on_datagram(datagram).expect("netlink");
        }
        let is_complete = answers.is_complete();
        let error = answers.into_result(steps).err();
        (is_complete, error.map(|error| error.to_string()))
    }

    #[test]
    fn only_the_last_request_asks_for_an_acknowledgement() {
        let bytes = encode(&[step("one"), step("two"), step("three")]);
        let messages: Vec<(u16, u32)> = {
            let mut rest = bytes.as_slice();
            std::iter::from_fn(|| next_message::<RouteNetlinkMessage>(&mut rest).expect("netlink"))
                .map(|message| (message.header.flags, message.header.sequence_number))
                .collect()
        };
        let last = NLM_F_REQUEST | NLM_F_ACK;
        assert_eq!(
            messages,
            [(NLM_F_REQUEST, 1), (NLM_F_REQUEST, 2), (last, 3)]
        );
    }

    #[test]
    fn first_refusal_is_returned_after_the_answer_to_the_last_request() {
        let steps = [step("one"), step("two"), step("three")];
        let (exists, no_device) = (-17, -19);
        assert_eq!(answers(&steps, &[]), (false, None));
        assert_eq!(answers(&steps, &[answer(3, 0)]), (true, None));
        let refused = Some("the kernel refused to two".to_owned());
        let (second, third) = (answer(2, exists), answer(3, no_device));
        assert_eq!(
            answers(&steps, std::slice::from_ref(&second)),
            (false, refused.clone())
        );
        assert_eq!(
            answers(&steps, &[[second, third].concat()]),
            (true, refused)
        );
    }

    #[test]
    fn tolerated_refusals_are_no_failure_and_others_of_that_step_are() {
        let mut steps = [step("one"), step("two")];
        steps[0].tolerated = Some(Errno::AFNOSUPPORT);
        let done = answer(2, 0);
        let unsupported = [answer(1, -97), done.clone()];
        assert_eq!(answers(&steps, &unsupported), (true, None));
        let (_, error) = answers(&steps, &[answer(1, -1), done]);
        assert!(error.is_some());
    }

    #[test]
    fn answers_to_other_requests_do_not_count() {
        let steps = [step("one"), step("two")];
        let strangers = [answer(0, 0), answer(3, -1), answer(200, 0)];
        assert_eq!(answers(&steps, &strangers), (false, None));
        assert_eq!(answers(&[], &[]), (true, None));
    }

    #[test]
    fn malformed_datagrams_are_an_error_and_never_a_panic() {
        let whole = [answer(1, -17), answer(2, 0)].concat();
        for cut in 1..whole.len() {
            let mut odd = whole.clone();
            odd[cut] ^= 0xff;
            for datagram in [&whole[..cut], &odd] {
                let _any = <Answers>::new(2).on_datagram(datagram);
            }
        }
        assert!(<Answers>::new(2).on_datagram(&[0; 16]).is_err());
    }
}
