//! Routed namespaces and mapped ports, between namespaces that end with the test: one plays the
//! host, so that the real one is never changed.

mod guard;
mod host;
mod ports;

use host::Host;
