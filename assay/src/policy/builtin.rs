//! The policies that come with the program, as text in the language of every other policy. Pure.

/// How problems and rules of the base are named.
pub const BASE_NAME: &str = "base:system";
/// What `base: system` adds.
pub const BASE: &str = include_str!("base-system.yaml");
/// How the built-in policy is named.
pub const MINIMAL_NAME: &str = "builtin:minimal";
/// The built-in minimal policy.
pub const MINIMAL: &str = include_str!("minimal.yaml");
