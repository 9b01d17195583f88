//! Packets between two sockets.

use std::future::poll_fn;
use std::io::IoSliceMut;
use std::time::Duration;

use quinn::AsyncUdpSocket;
use quinn::udp::{RecvMeta, Transmit};
use tokio::time::{Instant, timeout};

use super::*;

async fn receive(socket: &SimSocket) -> Vec<u8> {
    let mut bytes = [0; 64];
    let mut metas = [RecvMeta::default()];
    let received = poll_fn(|context| {
        let mut buffers = [IoSliceMut::new(&mut bytes)];
        socket.poll_recv(context, &mut buffers, &mut metas)
    });
    assert_eq!(received.await.unwrap(), 1);
    bytes[..metas[0].len].to_vec()
}

fn send(socket: &SimSocket, to: SocketAddr, contents: &[u8]) {
    let transmit = Transmit {
        destination: to,
        ecn: None,
        contents,
        segment_size: None,
        src_ip: None,
    };
    socket.try_send(&transmit).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_packet_takes_its_time_and_a_cut_takes_packets_in_its_direction_only() {
    let network = Network::new(Rng::new(1, 1));
    let (one, other) = (address_of(0, 1), address_of(1, 1));
    let (here, there) = (network.bind(one), network.bind(other));
    network.set_slow(0, Duration::from_millis(20));
    let begun = Instant::now();
    send(&here, other, b"slow");
    assert_eq!(receive(&there).await, b"slow");
    assert_eq!(begun.elapsed(), Duration::from_millis(21));
    network.cut(0, 1);
    network.cut(0, 1);
    network.mend(0, 1);
    send(&here, other, b"gone");
    send(&there, one, b"back");
    assert_eq!(receive(&here).await, b"back");
    network.mend(0, 1);
    send(&here, other, b"again");
    assert_eq!(receive(&there).await, b"again");
    assert_eq!(network.counts().cut, 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_killed_neither_speaks_nor_hears_and_the_next_one_does() {
    let network = Network::new(Rng::new(1, 1));
    let (one, other) = (address_of(0, 1), address_of(1, 1));
    let (here, old) = (network.bind(one), network.bind(other));
    network.unplug(1);
    send(&old, one, b"ghost");
    let new = network.bind(other);
    send(&here, other, b"hello");
    assert_eq!(receive(&new).await, b"hello");
    let heard = timeout(Duration::from_secs(1), receive(&here)).await;
    assert!(heard.is_err(), "{heard:?}");
}
