//! Evidence and what was found in it → text for a terminal, a pull request, code scanning, programs. Pure.

pub mod diff;
pub mod gate;
pub mod json;
pub mod markdown;
pub mod sarif;
pub mod show;
pub mod text;
