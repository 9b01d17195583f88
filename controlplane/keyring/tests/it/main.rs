//! The keyring from outside: frozen bytes, values out of their place, files of a directory.

mod files;
mod frozen;
mod keyring;
mod material;
mod signing;
mod sources;
