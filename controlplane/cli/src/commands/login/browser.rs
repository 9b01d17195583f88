//! Opening an address in the user's browser, where there is a display.

use std::process::{Command, Stdio};

/// Opens `url`. The address is printed anyway, so a browser that does not start is no failure.
pub(super) fn open(url: &str) {
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    // The address comes from the server, and is opened only where it is one of the web.
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    if !has_display || !is_web {
        return;
    }
    let opened = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    drop(opened);
}
