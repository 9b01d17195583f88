//! Two daemons with one identity.

use std::io;
use std::sync::Mutex;

use protocol_transport::StreamKind;
use protocol_wire::v1;
use tracing::Level;

use crate::fake_node::{FakeNode, open, read, write};
use crate::world::World;

/// The errors that this program logged: of every test in it.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct ToLog;

impl io::Write for ToLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines_about(node: &str) -> Vec<String> {
    let log = String::from_utf8(LOG.lock().expect("no panic").clone()).expect("is text");
    let about = |line: &&str| line.contains(node) && line.contains("data_dir was copied");
    log.lines().filter(about).map(str::to_owned).collect()
}

/// A daemon with this identity says Hello; the session that it is given. The first to do so is a
/// copy, which has just been started.
async fn greet(node: &FakeNode, last_epoch: u64, nonce: u8) -> (quinn::Connection, u64) {
    let hello = v1::Hello {
        last_epoch,
        nonce: vec![nonce; 16].into(),
        daemon_restarted: nonce == 10,
        ..node.hello()
    };
    let connection = node.connect_again().await;
    let (mut writer, mut reader) = open(&connection, StreamKind::NodeSession).await;
    write(&mut writer, &hello).await;
    let welcome: v1::Welcome = read(&mut reader).await;
    (connection, welcome.epoch)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_with_one_identity_are_one_error_that_says_so() {
    let to_log = tracing_subscriber::fmt()
        .with_max_level(Level::ERROR)
        .with_ansi(false)
        .with_writer(|| ToLog)
        .finish();
    tracing::subscriber::set_global_default(to_log).expect("no other test has one");
    let world = World::start().await;
    let mut node = FakeNode::join(&world).await;
    let id = node.id.to_string();
    let mut sessions = [node.epoch(), node.epoch()];
    let mut connections = Vec::new();
    for nonce in 10..20 {
        let daemon = usize::from(nonce % 2);
        let (connection, epoch) = greet(&node, sessions[daemon], nonce).await;
        sessions[daemon] = epoch;
        connections.push(connection);
        if nonce == 11 {
            assert_eq!(
                lines_about(&id),
                [""; 0],
                "one may have been long on its way"
            );
        }
    }
    let refused = node.refused().await;
    assert!(
        refused
            .message
            .contains("a daemon with this node's identity"),
        "{}",
        refused.message
    );
    let lines = lines_about(&id);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("ERROR"), "{lines:?}");
    assert!(lines[0].contains("address=127.0.0.1"), "{lines:?}");
}
