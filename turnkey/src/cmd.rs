//! The commands, a file for each.

pub mod attach;
pub mod attest;
pub mod audit;
pub mod check;
pub mod diff;
pub mod doctor;
pub mod events;
pub mod explain;
pub mod gate;
pub mod import;
pub mod layers;
pub mod learn;
pub mod monitor;
pub mod oci_hook;
pub mod oci_runtime;
pub mod pages;
pub mod profiles;
pub mod report;
pub mod run;
pub mod scan;
pub mod schema;
pub mod serve;
pub mod top;
pub mod verify;
pub mod worlds;
