//! Observations → effects: the canonicaliser and what it makes. Pure.

pub mod effect;
pub mod name;
