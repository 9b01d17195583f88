//! keeper and pump as real processes: FIFOs, sockets, cgroups, and their deaths.

mod golden;
mod keeper;
mod keeper_death;
mod pump;
mod pump_faults;
mod support;
