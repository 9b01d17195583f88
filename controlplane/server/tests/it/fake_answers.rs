//! What the fake node answers when a server calls it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use protocol_model::AllocId;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::kind::to_frame;
use protocol_wire::v1;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;

use tokio::time::timeout;

use crate::fake_node::{read, write};

/// A write that takes longer finds nobody who reads.
const RESTS: Duration = Duration::from_millis(300);

/// A file that never ends.
pub(crate) const ENDLESS: &str = "endless";

/// What this node has: a file of ten bytes, and a shell that repeats what it is told.
pub(crate) async fn answer(
    request: v1::NodeRequest,
    writer: &mut FrameWriter,
    mut reader: FrameReader,
) {
    match request.request.expect("a request") {
        Request::Logs(logs) => {
            let name = if logs.stderr { "stderr" } else { "stdout" };
            if logs.task != "server" {
                let message = format!("task {:?} is not in the allocation", logs.task);
                return refuse(writer, 404, message).await;
            }
            chunks(writer, &format!("alloc/logs/server.{name}.0"), logs.offset).await;
            if logs.follow {
                say(writer, Reply::Heartbeat(true)).await;
                chunks(writer, &format!("alloc/logs/server.{name}.1"), 0).await;
            }
            say(writer, Reply::End(true)).await;
        }
        Request::FsRead(file) if file.path == ENDLESS => endless(writer).await,
        Request::FsRead(file) => {
            chunks(writer, &file.path, file.offset).await;
            say(writer, Reply::End(true)).await;
        }
        Request::FsList(_) => json(writer, r#"[{"Name":"alloc","IsDir":true,"Size":0}]"#).await,
        Request::FsStat(file) => {
            json(
                writer,
                &format!(r#"{{"Name":{:?},"IsDir":false,"Size":10}}"#, file.path),
            )
            .await;
        }
        Request::ReadMeta(_) => {
            json(
                writer,
                r#"{"Meta":{"rack":"r1"},"Dynamic":{},"Static":{"rack":"r1"}}"#,
            )
            .await;
        }
        Request::ApplyMeta(apply) => metadata(writer, apply).await,
        Request::Stats(_) | Request::HostStats(_) => json(writer, r#"{"Timestamp":1}"#).await,
        Request::CollectGarbage(_) if !request.alloc_id.is_empty() => {
            let alloc = AllocId::from_slice(&request.alloc_id).expect("an id");
            refuse(writer, 400, format!("allocation {alloc} has not ended")).await;
        }
        Request::Restart(_) | Request::CollectGarbage(_) => say(writer, Reply::End(true)).await,
        Request::Foreign(_) | Request::ReleaseForeign(_) => {
            json(writer, r#"[{"ID":"a0000000-0000-4000-8000-000000000009"}]"#).await;
        }
        Request::Signal(signal) if signal.signal == "SIGHUP" => {
            say(writer, Reply::End(true)).await;
        }
        Request::Signal(_) => refuse(writer, 400, "no such signal".to_owned()).await,
        Request::Exec(exec) if exec.command == ["deaf"] => {
            drop(reader);
            deaf(writer).await;
        }
        Request::Exec(exec) => shell(&exec, writer, &mut reader).await,
    }
}

/// Shows the changes, and refuses those without a key.
async fn metadata(writer: &mut FrameWriter, apply: v1::ApplyMetaRequest) {
    let changes = apply.changes.into_iter();
    let dynamic: BTreeMap<_, _> = changes.map(|it| (it.key, it.value)).collect();
    if dynamic.is_empty() {
        return refuse(writer, 400, "missing required Meta object".to_owned()).await;
    }
    let answer = serde_json::json!({ "Meta": {}, "Dynamic": dynamic, "Static": {} });
    json(writer, &answer.to_string()).await;
}

async fn refuse(writer: &mut FrameWriter, status: u32, message: String) {
    say(writer, Reply::Error(v1::NodeError { status, message })).await;
}

/// A command that reads no input: a while passes before it ends, in which some may come.
async fn deaf(writer: &mut FrameWriter) {
    use v1::exec_output::Output;
    let output = |output| {
        let output = Some(output);
        Reply::Exec(v1::ExecOutput { output })
    };
    say(writer, output(Output::Stdout("deaf".into()))).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    say(writer, output(Output::ExitCode(7))).await;
    say(writer, Reply::End(true)).await;
}

/// Repeats input on stdout until input ends, then exits with 3.
async fn shell(exec: &v1::ExecRequest, writer: &mut FrameWriter, reader: &mut FrameReader) {
    use v1::exec_input::Input;
    use v1::exec_output::Output;
    let output = |output| {
        Reply::Exec(v1::ExecOutput {
            output: Some(output),
        })
    };
    let words = exec.command.join(" ");
    say(writer, output(Output::Stderr(words.into_bytes().into()))).await;
    loop {
        let input: v1::ExecInput = read(reader).await;
        match input.input.expect("an input") {
            Input::Stdin(data) => say(writer, output(Output::Stdout(data))).await,
            Input::StdinClose(_) => break,
            Input::TtySize(size) => {
                let text = format!("{}x{}", size.width, size.height);
                say(writer, output(Output::Stdout(text.into_bytes().into()))).await;
            }
            Input::Heartbeat(_) => {}
        }
    }
    say(writer, output(Output::ExitCode(3))).await;
    say(writer, Reply::End(true)).await;
}

/// Answers that never end and of which nobody takes anything at the moment.
pub(crate) static RESTING: AtomicUsize = AtomicUsize::new(0);

/// Goes on until nobody listens any more.
async fn endless(writer: &mut FrameWriter) {
    let chunk = v1::FileChunk {
        file: ENDLESS.to_owned(),
        data: vec![b'x'; 64 * 1024].into(),
        ..v1::FileChunk::default()
    };
    let reply = Some(Reply::Chunk(chunk));
    let (kind, body) = to_frame(&v1::NodeReply { reply });
    loop {
        let mut written = pin!(writer.write(kind, body.clone()));
        let taken = match timeout(RESTS, &mut written).await {
            Ok(taken) => taken,
            Err(_) => {
                RESTING.fetch_add(1, Ordering::SeqCst);
                let taken = written.await;
                RESTING.fetch_sub(1, Ordering::SeqCst);
                taken
            }
        };
        if taken.is_err() {
            return;
        }
    }
}

async fn chunks(writer: &mut FrameWriter, file: &str, offset: i64) {
    let all = b"0123456789";
    let from = usize::try_from(offset)
        .expect("not negative")
        .min(all.len());
    let data = Bytes::from_static(&all[from..]);
    let chunk = v1::FileChunk {
        file: file.to_owned(),
        offset,
        data,
        event: String::new(),
    };
    say(writer, Reply::Chunk(chunk)).await;
}

async fn json(writer: &mut FrameWriter, text: &str) {
    say(writer, Reply::Json(text.to_owned().into_bytes().into())).await;
    say(writer, Reply::End(true)).await;
}

async fn say(writer: &mut FrameWriter, reply: Reply) {
    write(writer, &v1::NodeReply { reply: Some(reply) }).await;
}
