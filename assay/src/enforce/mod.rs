//! Policy → kernel: what this machine holds of a policy, and by which means.
//!
//! ```text
//! Policy ──survey──> Survey ─┐
//! Host ──────────────────────┴─plan──> Plan ──> landlock (in the launched child)
//! ```
//!
//! `plan` and `status` are pure; `survey`, `other_names` and `files` look at the file tree; `landlock` is the only place that
//! restricts by Landlock.

pub mod cgroup;
pub mod cgroup_code;
pub mod confine;
mod devices;
pub mod files;
pub mod grant;
pub mod landlock;
pub mod links;
pub mod means;
pub mod mount_attr;
pub mod mounts;
pub mod name_classes;
pub mod net_plan;
pub mod observer_guard;
pub mod other_names;
pub mod own_processes;
pub mod placeholders;
pub mod plan;
pub mod sockets;
pub mod split;
pub mod status;
pub mod survey;
pub mod syscall_filter;
mod walk;

pub use confine::Confinement;
pub use means::Means;
pub use other_names::deny_other_names;
pub use plan::{Plan, plan};
pub use status::{Component, Degradation, Enforcement};
pub use survey::survey;
