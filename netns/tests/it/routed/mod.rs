//! Routed namespaces and mapped ports, between namespaces that end with the test: one plays the
//! host, so that the real one is never changed.

mod foreign;
mod guard;
mod host;
mod namespaces;
mod outside;
mod ports;
mod table;

use host::Host;
