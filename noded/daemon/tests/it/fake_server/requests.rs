//! Requests of tasks: recorded, and answered with their own first line. Secrets that begin with `0`
//! are rejected. Answers to `/v1/long` have no length.

use std::sync::Arc;

use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use tokio::sync::watch;

use super::{Known, write};

pub(super) async fn serve(
    mut writer: FrameWriter,
    mut reader: FrameReader,
    known: Arc<watch::Sender<Known>>,
) {
    let frame = reader.expect().await.unwrap();
    let _: v1::AttachBulk = from_frame(frame.kind, frame.body).unwrap();
    known.send_modify(|known| known.task_streams += 1);
    while let Ok(Some(frame)) = reader.read().await {
        let asked: v1::ApiRequest = from_frame(frame.kind, frame.body).unwrap();
        known.send_modify(|known| known.requests.push(asked.clone()));
        if known.borrow().is_mute_to_tasks {
            return std::future::pending().await;
        }
        let mut headers = asked.headers.iter();
        let rejected = headers.any(|it| it.name == "x-nomad-token" && it.value.starts_with(b"0"));
        let text = format!("{} {}", asked.method, asked.target);
        let mut head = v1::ApiResponse {
            status: if rejected { 403 } else { 200 },
            headers: Vec::new(),
            rejected,
        };
        if asked.target != "/v1/long" {
            head.headers.push(v1::ApiHeader {
                name: "content-length".to_owned(),
                value: text.len().to_string().into(),
            });
        }
        write(&mut writer, &head).await;
        let data = text.into_bytes().into();
        write(&mut writer, &v1::ApiBody { data, last: true }).await;
    }
}
