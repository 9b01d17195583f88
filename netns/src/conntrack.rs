//! Tracked flows of the kernel, over nfnetlink (linux/netfilter/nfnetlink_conntrack.h). Pure:
//! requests and answers as data.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use netlink_packet_core::{
    NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator,
};
use netlink_sys::protocols::NETLINK_NETFILTER;

use crate::request::Message;

/// `NFNL_SUBSYS_CTNETLINK`, the upper half of a message's type.
const SUBSYSTEM: u16 = 1 << 8;
const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;
/// struct nfgenmsg: family, version, resource.
const HEADER_BYTES: usize = 4;
const AF_INET: u8 = 2;
const UDP: u8 = 17;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_ZONE: u16 = 18;
const CTA_FILTER: u16 = 25;
/// In a tuple.
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
/// In a filter: the parts of the tuple that must be equal.
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const FILTER_PROTO_NUM: u32 = 1 << 3;
const NLA_F_NESTED: u16 = 1 << 15;

/// A message about tracked flows: its type in the subsystem and its attributes, encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConntrackMessage {
    kind: u16,
    attributes: Vec<u8>,
}

/// One direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tuple {
    pub(crate) source: Ipv4Addr,
    pub(crate) source_port: u16,
    pub(crate) destination: Ipv4Addr,
    pub(crate) destination_port: u16,
}

/// A tracked flow of UDP over IPv4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    /// As the first packet was sent.
    pub(crate) original: Tuple,
    /// As an answer is expected.
    pub(crate) reply: Tuple,
    /// The attributes that name the flow to the kernel, as it sent them.
    name: Vec<u8>,
}

impl ConntrackMessage {
    /// Asks for all UDP flows. Kernels before 5.8 do not know the filter and send all flows.
    pub(crate) fn list_udp() -> Self {
        let proto = nested(CTA_TUPLE_PROTO, &attribute(CTA_PROTO_NUM, &[UDP]));
        let flags = attribute(CTA_FILTER_ORIG_FLAGS, &FILTER_PROTO_NUM.to_ne_bytes());
        Self {
            kind: IPCTNL_MSG_CT_GET,
            attributes: [nested(CTA_TUPLE_ORIG, &proto), nested(CTA_FILTER, &flags)].concat(),
        }
    }

    /// Makes the kernel forget a flow: its next packet is a first one.
    pub(crate) fn delete(flow: &Flow) -> Self {
        Self {
            kind: IPCTNL_MSG_CT_DELETE,
            attributes: flow.name.clone(),
        }
    }

    /// The flow in an answer; `None` for one of another protocol.
    pub(crate) fn flow(&self) -> Option<Flow> {
        let (mut original, mut reply, mut name) = (None, None, Vec::new());
        for (kind, value) in attributes(&self.attributes) {
            match kind {
                CTA_TUPLE_ORIG => {
                    original = tuple(value);
                    name.extend(nested(kind, value));
                }
                CTA_TUPLE_REPLY => reply = tuple(value),
                CTA_ZONE => name.extend(attribute(kind, value)),
                _ => {}
            }
        }
        Some(Flow {
            original: original?,
            reply: reply?,
            name,
        })
    }
}

#[cfg(test)]
impl Flow {
    pub(crate) const fn for_tests(original: Tuple, reply: Tuple) -> Self {
        Self {
            original,
            reply,
            name: Vec::new(),
        }
    }
}

impl Message for ConntrackMessage {
    const PROTOCOL: isize = NETLINK_NETFILTER;
}

impl NetlinkSerializable for ConntrackMessage {
    fn message_type(&self) -> u16 {
        SUBSYSTEM | self.kind
    }

    fn buffer_len(&self) -> usize {
        HEADER_BYTES + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&[AF_INET, 0, 0, 0]);
        attributes.copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for ConntrackMessage {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Self {
            kind: header.message_type & 0xff,
            attributes: payload.get(HEADER_BYTES..).unwrap_or_default().to_vec(),
        })
    }
}

/// `None`: not UDP over IPv4, or incomplete.
fn tuple(bytes: &[u8]) -> Option<Tuple> {
    let ip = find(bytes, CTA_TUPLE_IP)?;
    let proto = find(bytes, CTA_TUPLE_PROTO)?;
    (find(proto, CTA_PROTO_NUM)? == [UDP]).then_some(())?;
    let address = |kind| {
        let octets: [u8; 4] = find(ip, kind)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets))
    };
    let port = |kind| {
        let bytes: [u8; 2] = find(proto, kind)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes))
    };
    Some(Tuple {
        source: address(CTA_IP_V4_SRC)?,
        source_port: port(CTA_PROTO_SRC_PORT)?,
        destination: address(CTA_IP_V4_DST)?,
        destination_port: port(CTA_PROTO_DST_PORT)?,
    })
}

fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

/// Kinds and values, up to the first malformed one.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes)
        .map_while(Result::ok)
        .map(|attribute| {
            let kind = attribute.kind();
            let length = usize::from(attribute.length());
            (
                kind,
                attribute.into_inner().get(4..length).unwrap_or_default(),
            )
        })
}

fn nested(kind: u16, value: &[u8]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, value)
}

/// Values are short: a tuple has 52 bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(kind: u16, protocol: u8, tuple: Tuple) -> Vec<u8> {
        let ip = [
            attribute(CTA_IP_V4_SRC, &tuple.source.octets()),
            attribute(CTA_IP_V4_DST, &tuple.destination.octets()),
        ];
        let proto = [
            attribute(CTA_PROTO_NUM, &[protocol]),
            attribute(CTA_PROTO_SRC_PORT, &tuple.source_port.to_be_bytes()),
            attribute(CTA_PROTO_DST_PORT, &tuple.destination_port.to_be_bytes()),
        ];
        let both = [
            nested(CTA_TUPLE_IP, &ip.concat()),
            nested(CTA_TUPLE_PROTO, &proto.concat()),
        ];
        nested(kind, &both.concat())
    }

    fn answer(protocol: u8) -> (ConntrackMessage, Tuple, Tuple) {
        let original = Tuple {
            source: Ipv4Addr::new(198, 51, 100, 2),
            source_port: 5000,
            destination: Ipv4Addr::new(192, 0, 2, 10),
            destination_port: 20000,
        };
        let reply = Tuple {
            source: Ipv4Addr::new(172, 26, 64, 5),
            source_port: 80,
            destination: original.source,
            destination_port: 5000,
        };
        let attributes = [
            direction(CTA_TUPLE_ORIG, protocol, original),
            direction(CTA_TUPLE_REPLY, protocol, reply),
            attribute(3, &[0, 0, 0, 8]),
            attribute(CTA_ZONE, &[0, 7]),
        ];
        let message = ConntrackMessage {
            kind: 0,
            attributes: attributes.concat(),
        };
        (message, original, reply)
    }

    #[test]
    fn both_directions_of_a_flow_are_read() {
        let (message, original, reply) = answer(UDP);
        let flow = message.flow().expect("a flow");
        assert_eq!((flow.original, flow.reply), (original, reply));
    }

    #[test]
    fn a_flow_is_named_by_its_first_direction_and_its_zone() {
        let (message, original, _) = answer(UDP);
        let delete = ConntrackMessage::delete(&message.flow().expect("a flow"));
        assert_eq!(delete.message_type(), 0x102);
        let expected = [
            direction(CTA_TUPLE_ORIG, UDP, original),
            attribute(CTA_ZONE, &[0, 7]),
        ];
        assert_eq!(delete.attributes, expected.concat());
        let mut bytes = vec![0xff; delete.buffer_len()];
        delete.serialize(&mut bytes);
        assert_eq!(bytes[..4], [AF_INET, 0, 0, 0]);
    }

    #[test]
    fn flows_of_other_protocols_are_passed_over() {
        let (message, ..) = answer(6);
        assert_eq!(message.flow(), None);
    }

    #[test]
    fn malformed_attributes_are_no_flow_and_never_a_panic() {
        let (message, ..) = answer(UDP);
        for cut in 0..message.attributes.len() {
            let mut odd = message.clone();
            odd.attributes[cut] ^= 0xff;
            let _any = odd.flow();
            odd.attributes.truncate(cut);
            let _any = odd.flow();
        }
    }
}
