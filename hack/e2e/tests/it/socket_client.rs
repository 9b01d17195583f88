//! The client of tasks that are scripts of Python and ask the API through their sockets.

/// `Api` is a connection; `Api().ask(method, path, token, body, headers)` sends a request on it and
/// returns the answer. `token` and `secrets` are the task's own.
const CLIENT: &str = r#"
import http.client, json, os, socket, time

secrets, token = os.environ["NOMAD_SECRETS_DIR"], os.environ["NOMAD_TOKEN"]

class Api(http.client.HTTPConnection):
    def __init__(self):
        super().__init__("localhost")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(secrets + "/api.sock")

    def ask(self, method, path, token=None, body=None, headers={}):
        shown = {"X-Nomad-Token": token} if token else {}
        self.request(method, path, body, {**shown, **headers})
        return self.getresponse()
"#;

/// A script that has the client.
pub(crate) fn script(text: &str) -> String {
    format!("{CLIENT}\n{text}")
}
