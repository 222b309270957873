//! Observations → effects: the canonicaliser and what it makes. Pure.

pub mod acts;
pub mod effect;
pub mod name;
pub mod roots;
