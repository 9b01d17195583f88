//! keeper and pump as real processes: FIFOs, sockets, cgroups, and their deaths.

mod clients;
mod ends;
mod golden;
mod golden_v2;
mod golden_v3;
mod keeper_death;
mod leases;
mod output;
mod pump;
mod pump_faults;
mod sockets;
mod starts;
mod steps;
mod support;
mod upgrade;
