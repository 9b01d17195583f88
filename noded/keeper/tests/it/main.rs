//! keeper and pump as real processes: FIFOs, sockets, cgroups, and their deaths.

mod clients;
mod ends;
mod golden;
mod golden_v2;
mod keeper_death;
mod leases;
mod output;
mod pump;
mod pump_faults;
mod starts;
mod steps;
mod support;
mod upgrade;
