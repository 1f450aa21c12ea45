//! Recognises what the acts of a program amount to: events in, findings out. Pure.

pub mod behaviour;
