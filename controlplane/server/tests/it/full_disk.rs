//! A full disk under a server: it says so and ends, and what it acknowledged is there when space
//! is.

use std::path::{Path, PathBuf};

use controlplane_server::Server;
use controlplane_server::config::Config;
use protocol_client::{Answer, Client, ClientError, Query, TlsFiles};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use serde_json::{Value, json};

use crate::world::{PATIENCE, service};

/// A file system of a few megabytes; gone when this is dropped.
struct SmallDisk {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl SmallDisk {
    /// `None` where this process may not mount one.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        std::fs::create_dir(&path).expect("a directory");
        let size = Some(c"size=8m,mode=0700");
        match mount("tmpfs", &path, "tmpfs", MountFlags::empty(), size) {
            Ok(()) => Some(Self {
                _directory: directory,
                path,
            }),
            Err(error) => {
                eprintln!("skipped: needs a tmpfs of its own ({error})");
                None
            }
        }
    }

    fn grow(&self) {
        mount_remount(&self.path, MountFlags::empty(), "size=256m").expect("it grows");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.path, UnmountFlags::DETACH) {
            eprintln!("{} is still mounted: {error}", self.path.display());
        }
    }
}

async fn start(data_dir: &Path) -> Server {
    let mut config = Config::dev(data_dir.to_owned()).expect("a configuration");
    config.http.listen.set_port(0);
    config.quic_listen.set_port(0);
    let server = Server::start(config).await.expect("a server");
    let mut newest = server.cluster().hub().watch();
    let ready = newest.wait_for(|snapshot| snapshot.cluster().incarnation.is_some());
    let ready = tokio::time::timeout(PATIENCE, ready).await;
    drop(ready.expect("in time").expect("the state is there"));
    server
}

fn client(server: &Server) -> Client {
    let address = format!("http://{}", server.http_address());
    let address = address.parse().expect("an address");
    Client::new(address, &TlsFiles::default()).expect("a client")
}

/// A job that takes half a megabyte wherever it is written.
fn bulky(id: &str) -> Value {
    let mut job = service(id);
    let random: String = (0..16_384)
        .map(|_| uuid::Uuid::new_v4().simple().to_string())
        .collect();
    job["Meta"]["filler"] = Value::String(random);
    json!({ "Job": job })
}

async fn register(client: &Client, id: &str) -> Result<Answer<Value>, ClientError> {
    client.put("/v1/jobs", &Query::new(), &bulky(id)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_ends_the_server_and_loses_nothing_that_was_acknowledged() {
    let Some(disk) = SmallDisk::mount() else {
        return;
    };
    let mut server = start(&disk.path).await;
    let writer = client(&server);
    let mut acknowledged = Vec::new();
    for number in 0..64 {
        let id = format!("job-{number}");
        if register(&writer, &id).await.is_err() {
            break;
        }
        acknowledged.push(id);
    }
    assert!(acknowledged.len() < 64, "the disk is smaller than that");
    let reason = tokio::time::timeout(PATIENCE, server.failed())
        .await
        .expect("the server says that it failed");
    assert!(
        reason.contains("storage failed") && reason.contains("No space left on device"),
        "{reason}"
    );
    server.shutdown().await;

    disk.grow();
    let server = start(&disk.path).await;
    let reader = client(&server);
    for id in &acknowledged {
        let path = format!("/v1/job/{id}");
        let job: Answer<Value> = reader.get(&path, &Query::new()).await.expect("it is there");
        assert_eq!(job.value["ID"], id.as_str());
    }
    register(&reader, "after").await.expect("it takes writes");
    server.shutdown().await;
}
