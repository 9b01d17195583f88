//! The readers of bytes that come from the kernel and from nft, for tests that feed them anything.
//! Nothing is acted on.

use crate::batch::Answers;
use crate::conntrack::ConntrackMessage;
use crate::reply::{BadReply, Progress, Reply};
use crate::routed::{Layout, listing};
use crate::{addresses, links, routes};

/// Reads a datagram as the answer to a dump and as the answers to a batch. Returns how many links,
/// addresses and routes it has.
///
/// # Errors
/// The datagram cannot be understood; in words.
pub fn netlink_datagram(sequence: u32, datagram: &[u8]) -> Result<usize, String> {
    let mut reply = <Reply>::new(sequence);
    let progress = reply.on_datagram(datagram);
    // A batch of as many steps as the sequence number says, within reason.
    let mut answers = <Answers>::new(usize::from(u8::try_from(sequence).unwrap_or(u8::MAX)));
    let of_batch = answers.on_datagram(datagram);
    // As flows, too: the outer shape is the same.
    let mut flows = Reply::<ConntrackMessage>::new(sequence);
    if flows.on_datagram(datagram).is_ok() {
        let _any: Vec<_> = flows
            .into_messages()
            .iter()
            .map(ConntrackMessage::flow)
            .collect();
    }
    match progress {
        Err(BadReply::Malformed { reason }) => Err(reason),
        // An answer as any other.
        Err(BadReply::Refused { .. }) => of_batch.map(|()| 0),
        Ok(Progress::Collecting | Progress::Complete | Progress::Interrupted) => {
            let messages = reply.into_messages();
            let count = addresses::parse(&messages).len() + routes::parse(&messages).len();
            Ok(count + links::parse(messages).len())
        }
    }
}

/// Reads a text as each answer of nft that is asked for. Returns how many mappings the table of
/// `layout` has in it.
///
/// # Errors
/// The text is no answer of nft; in words.
pub fn nft_description(layout: &Layout, text: &str) -> Result<usize, String> {
    let chains = listing::chains(text);
    let subnet = listing::subnet(text);
    let has_rule = listing::has_rule_for(&layout.link_prefix(), text);
    let elements = listing::elements(layout, text)?.len();
    subnet.map(drop)?;
    has_rule.map(drop)?;
    let chains = chains?;
    let _names = (chains.other_tables(layout), chains.dropping(layout));
    Ok(elements)
}
