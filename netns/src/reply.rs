//! What the kernel answers to one request: collected datagram by datagram, without any I/O.
//!
//! ```text
//!            ┌── message ──┐ (a dump)
//!            v             │
//!  Collecting ─────────────┘── NLMSG_DONE ──> Complete | Interrupted
//!      │
//!      ├── NLMSG_ERROR, code 0 ─────────────> Complete (an acknowledgement)
//!      └── NLMSG_ERROR, code < 0 ───────────> Refused (errno, the kernel's own words)
//! ```

use std::fmt::Debug;
use std::num::NonZeroI32;

use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP_INTR, NetlinkDeserializable,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::io::Errno;

/// Length of a netlink header.
const HEADER_BYTES: usize = 16;
/// Messages and attributes begin at multiples of this.
const ALIGNMENT: usize = 4;
/// Attribute of an extended acknowledgement that holds a sentence (linux/netlink.h).
const NLMSGERR_ATTR_MSG: u16 = 1;
/// More messages than any host has of anything; a guard against a loop without end.
const MESSAGES_MAX: usize = 1 << 20;

/// Messages of one answer.
#[derive(Debug)]
pub(crate) struct Reply<M = RouteNetlinkMessage> {
    sequence: u32,
    interrupted: bool,
    messages: Vec<M>,
}

/// Where a reply stands after a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More datagrams will come.
    Collecting,
    /// Everything is there.
    Complete,
    /// Everything came, but the kernel's tables changed meanwhile: ask again.
    Interrupted,
}

/// An answer that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadReply {
    /// The kernel refused.
    Refused {
        errno: Errno,
        reason: Option<String>,
    },
    /// Bytes that are no netlink.
    Malformed { reason: String },
}

impl<M: NetlinkDeserializable + Debug> Reply<M> {
    pub(crate) const fn new(sequence: u32) -> Self {
        Self {
            sequence,
            interrupted: false,
            messages: Vec::new(),
        }
    }

    /// Takes the next datagram. Messages with another sequence number answer an earlier request,
    /// which was given up, and are passed over.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8]) -> Result<Progress, BadReply> {
        let mut rest = datagram;
        while let Some(message) =
            next_message(&mut rest).map_err(|reason| BadReply::Malformed { reason })?
        {
            if message.header.sequence_number == self.sequence
                && let Some(progress) = self.on_message(message)?
            {
                return Ok(progress);
            }
        }
        Ok(Progress::Collecting)
    }

    pub(crate) fn into_messages(self) -> Vec<M> {
        self.messages
    }

    fn on_message(&mut self, message: NetlinkMessage<M>) -> Result<Option<Progress>, BadReply> {
        let (header, payload) = message.into_parts();
        self.interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
        match payload {
            NetlinkPayload::InnerMessage(inner) => {
                if self.messages.len() >= MESSAGES_MAX {
                    return Err(BadReply::Malformed {
                        reason: "more than 2^20 messages".into(),
                    });
                }
                self.messages.push(inner);
                Ok(None)
            }
            NetlinkPayload::Done(done) if done.code < 0 => Err(BadReply::Refused {
                errno: errno(done.code),
                reason: None,
            }),
            NetlinkPayload::Done(_) if self.interrupted => Ok(Some(Progress::Interrupted)),
            NetlinkPayload::Done(_) => Ok(Some(Progress::Complete)),
            NetlinkPayload::Error(error) => match refusal(header.flags, &error) {
                None => Ok(Some(Progress::Complete)),
                Some((errno, reason)) => Err(BadReply::Refused { errno, reason }),
            },
            NetlinkPayload::Noop => Ok(None),
            NetlinkPayload::Overrun(_) => Err(BadReply::Malformed {
                reason: "overrun".into(),
            }),
            other => Err(BadReply::Malformed {
                reason: format!("payload {other:?}"),
            }),
        }
    }
}

/// Takes the next message from the front of a datagram; `None` at its end.
pub(crate) fn next_message<M: NetlinkDeserializable>(
    datagram: &mut &[u8],
) -> Result<Option<NetlinkMessage<M>>, String> {
    if datagram.is_empty() {
        return Ok(None);
    }
    let message = NetlinkMessage::<M>::deserialize(datagram).map_err(|error| error.to_string())?;
    let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
    if length < HEADER_BYTES {
        return Err(format!("length {length}"));
    }
    *datagram = datagram
        .get(length.next_multiple_of(ALIGNMENT)..)
        .unwrap_or_default();
    Ok(Some(message))
}

/// The error number of a refusal and the kernel's own words; `None` for an acknowledgement.
pub(crate) fn refusal(flags: u16, error: &ErrorMessage) -> Option<(Errno, Option<String>)> {
    let code = error.code.map(NonZeroI32::get)?;
    Some((errno(code), reason(flags, &error.header)))
}

/// Netlink carries negative error numbers; what is none is an error all the same.
fn errno(code: i32) -> Errno {
    /// Largest error number (MAX_ERRNO).
    const LAST: i32 = 4095;
    match code.checked_neg() {
        Some(number @ 1..=LAST) => Errno::from_raw_os_error(number),
        _ => Errno::PROTO,
    }
}

/// The sentence in an extended acknowledgement. Behind the error code comes the refused request:
/// its header alone when capped, else all of it; then the attributes.
fn reason(flags: u16, after_code: &[u8]) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request = if flags & NLM_F_CAPPED == 0 {
        let length = u32::from_ne_bytes(after_code.get(..4)?.try_into().ok()?);
        usize::try_from(length).ok()?.next_multiple_of(ALIGNMENT)
    } else {
        HEADER_BYTES
    };
    let mut attributes = after_code.get(request..)?;
    while let [l0, l1, k0, k1, ..] = *attributes {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let kind = u16::from_ne_bytes([k0, k1]);
        let value = attributes.get(4..length)?;
        if kind == NLMSGERR_ATTR_MSG {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        attributes = attributes.get(length.next_multiple_of(ALIGNMENT)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RTM_NEWLINK` of a loopback that is down, as a dump with sequence 7 carries it; only the
    /// name follows the header.
    fn link(flags: u16) -> Vec<u8> {
        let mut bytes = vec![40, 0, 0, 0, 16, 0];
        bytes.extend(flags.to_le_bytes());
        bytes.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0, 0, 4, 3, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([7, 0, 3, 0, b'l', b'o', 0, 0]);
        bytes
    }

    const MULTI: u16 = 2;
    const DONE: [u8; 20] = [20, 0, 0, 0, 3, 0, 2, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn a_dump_is_complete_at_its_end() {
        let mut reply = <Reply>::new(7);
        assert_eq!(reply.on_datagram(&link(MULTI)), Ok(Progress::Collecting));
        assert_eq!(reply.on_datagram(&DONE), Ok(Progress::Complete));
        let messages = reply.into_messages();
        assert!(
            matches!(&messages[..], [RouteNetlinkMessage::NewLink(link)] if link.header.index == 1)
        );
    }

    #[test]
    fn a_dump_that_was_overtaken_by_a_change_says_so_at_its_end() {
        let mut reply = <Reply>::new(7);
        let mut datagram = link(MULTI | NLM_F_DUMP_INTR);
        datagram.extend(DONE);
        assert_eq!(reply.on_datagram(&datagram), Ok(Progress::Interrupted));
    }

    #[test]
    fn an_answer_to_an_older_request_is_passed_over() {
        let mut reply = <Reply>::new(8);
        assert_eq!(reply.on_datagram(&link(MULTI)), Ok(Progress::Collecting));
        assert!(reply.into_messages().is_empty());
    }

    #[test]
    fn an_acknowledgement_completes_and_a_refusal_carries_the_kernels_words() {
        let ack = [
            36, 0, 0, 0, 2, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // code 0
            32, 0, 0, 0, 16, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, // the request's header
        ];
        assert_eq!(<Reply>::new(7).on_datagram(&ack), Ok(Progress::Complete));

        let mut refusal = vec![
            52, 0, 0, 0, 2, 0, 0, 3, 7, 0, 0, 0, 0, 0, 0, 0, 237, 255, 255, 255, // code -19
            32, 0, 0, 0, 16, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0, 0, // the request's header
        ];
        refusal.extend([14, 0, 1, 0]);
        refusal.extend(b"no device\0\0\0");
        let length = u8::try_from(refusal.len()).expect("short");
        refusal[0] = length;
        assert_eq!(
            <Reply>::new(7).on_datagram(&refusal),
            Err(BadReply::Refused {
                errno: Errno::NODEV,
                reason: Some("no device".to_owned())
            })
        );
    }

    #[test]
    fn malformed_bytes_are_an_error_and_never_a_panic() {
        let whole: Vec<u8> = link(MULTI).into_iter().chain(DONE).collect();
        for cut in 1..whole.len() {
            let _any = <Reply>::new(7).on_datagram(&whole[..cut]);
            let mut odd = whole.clone();
            odd[cut] ^= 0xff;
            let _any = <Reply>::new(7).on_datagram(&odd);
        }
        assert!(matches!(
            <Reply>::new(7).on_datagram(&[0; 16]),
            Err(BadReply::Malformed { .. })
        ));
        assert!(matches!(
            <Reply>::new(7).on_datagram(&[9; 3]),
            Err(BadReply::Malformed { .. })
        ));
    }
}
