//! Attacks on access control, each as a test that fails without its defence.
//!
//! | file | attack |
//! |---|---|
//! | `connection` | the former identity of a kept-alive connection is used |
//! | `certificates` | a node's certificate on HTTP, or its secret as a token |
//! | `browser` | a page in an operator's browser uses the API |
//! | `kek` | a node, a tool or a removed server asks for the KEK |
//! | `clock` | a clock is set back to revive an expired token |
//! | `outputs` | secrets are read from logs, panics, answers and metrics |

mod browser;
mod certificates;
mod clock;
mod connection;
mod kek;
mod outputs;
