//! What a person allows: YAML → [`Policy`], and [`Policy`] × act → verdict. Pure.
//!
//! Files are read and links resolved through [`load::Files`], which the caller brings; nothing here opens a file,
//! asks the clock or looks at the environment.

pub mod builtin;
pub mod check;
pub mod load;
pub mod net;
pub mod parse;
pub mod path;
pub mod pattern;
pub mod problem;
pub mod rule;
pub mod shape;
pub mod telling;
pub mod yaml;

pub use check::{Judge, Request, Verdict, judge, judge_effect, judge_effect_at, judge_with_port};
pub use load::{Context, Files, load, load_builtin, load_bytes};
pub use problem::Problem;
pub use rule::{Access, AccessSet, Policy};
