//! Requests of tasks: each is remembered, and its target says how it is answered.
//!
//! | target | answer |
//! |---|---|
//! | `/never` | none |
//! | `/endless` | 200, and a body without an end |
//! | `/echo` with `Upgrade` | 101, and each byte comes back |
//! | `/sized` | as another, and its head names the length of its body |
//! | another | 200 and its own first line; a secret that begins with `0` is rejected |

use std::sync::Arc;

use bytes::Bytes;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::{from_frame, to_frame};
use protocol_wire::v1;
use tokio::sync::watch;

use super::{Known, write};

/// A request of a task, and its body.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) head: v1::ApiRequest,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    /// The values of a header.
    pub(crate) fn values(&self, name: &str) -> Vec<&[u8]> {
        let headers = self.head.headers.iter();
        let named = headers.filter(|header| header.name == name);
        named.map(|header| &*header.value).collect()
    }
}

/// Serves the requests of one connection of a task.
pub(super) async fn serve(
    mut writer: FrameWriter,
    mut reader: FrameReader,
    known: Arc<watch::Sender<Known>>,
) {
    let frame = reader.expect().await.unwrap();
    let _: v1::AttachBulk = from_frame(frame.kind, frame.body).unwrap();
    known.send_modify(|known| known.task_streams += 1);
    while let Ok(Some(frame)) = reader.read().await {
        let head: v1::ApiRequest = from_frame(frame.kind, frame.body).unwrap();
        known.send_modify(|known| known.requests.push(head.clone()));
        if known.borrow().is_mute_to_tasks {
            return std::future::pending().await;
        }
        let mut body = head.body.to_vec();
        let mut more = head.more;
        while more {
            let Some(part) = next(&mut reader).await else {
                known.send_modify(|known| known.left += 1);
                return;
            };
            body.extend_from_slice(&part.data);
            more = !part.last;
        }
        let asked = Asked { head, body };
        let target = asked.head.target.clone();
        let is_upgrade = !asked.values("upgrade").is_empty();
        let secrets = asked.values("x-nomad-token");
        let rejected = secrets.iter().any(|secret| secret.starts_with(b"0"));
        let line = format!("{} {target}", asked.head.method).into_bytes();
        known.send_modify(|known| known.asked.push(asked));
        match target.as_str() {
            "/never" => {
                writer.abandoned().await;
                known.send_modify(|known| known.left += 1);
                return;
            }
            "/endless" => {
                endless(&mut writer).await;
                known.send_modify(|known| known.left += 1);
                return;
            }
            "/echo" if is_upgrade => return echo(writer, reader).await,
            _ => {
                let length = v1::ApiHeader {
                    name: "content-length".to_owned(),
                    value: line.len().to_string().into(),
                };
                let headers = Some(length).filter(|_| target == "/sized");
                let head = v1::ApiResponse {
                    status: if rejected { 403 } else { 200 },
                    headers: headers.into_iter().collect(),
                    rejected,
                };
                write(&mut writer, &head).await;
                let data = line.into();
                write(&mut writer, &v1::ApiBody { data, last: true }).await;
            }
        }
    }
}

async fn begin(writer: &mut FrameWriter, status: u32) {
    let upgrade = [("connection", "upgrade"), ("upgrade", "echo")];
    let headers = upgrade.iter().filter(|_| status == 101);
    let headers = headers.map(|(name, value)| v1::ApiHeader {
        name: (*name).to_owned(),
        value: Bytes::from_static(value.as_bytes()),
    });
    let answer = v1::ApiResponse {
        status,
        headers: headers.collect(),
        rejected: false,
    };
    write(writer, &answer).await;
}

/// Sends until the node does not want any more.
async fn endless(writer: &mut FrameWriter) {
    begin(writer, 200).await;
    loop {
        let data = Bytes::from_static(&[b'a'; 16 * 1024]);
        let (kind, part) = to_frame(&v1::ApiBody { data, last: false });
        if writer.write(kind, part).await.is_err() {
            return;
        }
    }
}

async fn echo(mut writer: FrameWriter, mut reader: FrameReader) {
    begin(&mut writer, 101).await;
    while let Some(part) = next(&mut reader).await {
        write(&mut writer, &part).await;
        if part.last {
            return;
        }
    }
}

async fn next(reader: &mut FrameReader) -> Option<v1::ApiBody> {
    let frame = reader.read().await.ok()??;
    Some(from_frame(frame.kind, frame.body).unwrap())
}
