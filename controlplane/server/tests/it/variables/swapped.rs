//! Threat 20: the state holds a sealed value in another place than it was sealed for, or a changed
//! one. It is not shown, and neither is a part of it.

use controlplane_state::command::{VariableApply, VariableChange};
use controlplane_state::{Sealed, VariableKey};

use super::*;

/// Writes a sealed value into the log, as a thief of a server could.
async fn write(world: &World, key: VariableKey, sealed: Sealed) {
    let command = VariableApply {
        key,
        cas: None,
        lock_id: None,
        change: VariableChange::Write(sealed),
    };
    let written = world.server.cluster().change(command.into()).await;
    written.expect("it is applied");
}

#[tokio::test]
async fn sealed_value_in_another_place_or_changed_is_not_shown() {
    let world = World::start().await;
    let body = json!({ "Name": "dev" });
    world.put("/v1/namespace/dev", body).await.expect("made");
    for (path, value) in [("app/a", "planted-a"), ("app/b", "planted-b")] {
        let (status, written) = put(&world, &format!("/v1/var/{path}"), items(value)).await;
        assert_eq!(status, 200, "{written}");
    }
    let sealed = |path: &str| {
        let snapshot = world.server.cluster().snapshot();
        let row = snapshot.variable(&VariableKey::new("default", path));
        row.expect("it is written").sealed.clone()
    };
    let (a, b) = (sealed("app/a"), sealed("app/b"));
    let mut cut = b.clone();
    cut.bytes.truncate(b.bytes.len() - 1);
    let mut bent = b.clone();
    bent.bytes[b.bytes.len() / 2] ^= 1;
    for (namespace, path, sealed) in [
        ("default", "app/b", a.clone()),
        ("default", "app/c", b.clone()),
        ("dev", "app/a", a),
        ("default", "app/b", cut),
        ("default", "app/b", bent),
    ] {
        write(&world, VariableKey::new(namespace, path), sealed).await;
        let read = format!("/v1/var/{path}?namespace={namespace}");
        let (status, text) = refusal(world.get(&read).await);
        assert_eq!(status, 500, "{namespace} {path}: {text}");
        assert!(!text.contains("planted"), "{text}");
    }
    // In its own place it is read as before.
    write(&world, VariableKey::new("default", "app/b"), b).await;
    let read = world.get("/v1/var/app/b").await.expect("it opens");
    assert_eq!(read["Items"]["key"], "planted-b");
}
