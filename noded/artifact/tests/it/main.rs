//! Artifacts over loopback, archives built here, and hostile ones.

mod archives;
mod downloads;
mod hostile;
mod places;
mod scene;
mod server;
mod tls;
