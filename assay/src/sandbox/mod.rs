//! One run: its parts.

pub mod artifact;
pub mod duration;
pub mod environment;
pub mod inherited;
pub mod outcome;
pub mod signals;
pub mod status;
pub mod user;
