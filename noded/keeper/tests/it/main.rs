//! keeper and pump as real processes: FIFOs, sockets, cgroups, and their deaths.

mod golden;
mod golden_v2;
mod keeper;
mod keeper_death;
mod leases;
mod pump;
mod pump_faults;
mod steps;
mod support;
mod upgrade;
