//! What the kernel tests measure with. Knows nothing of how assay works inside: it reads what comes out.

pub mod compare;
pub mod expected;
pub mod links;
pub mod net;
pub mod ordinary;
pub mod page;
pub mod sandbox;
pub mod service;
pub mod strace;
pub mod tmux;
pub mod trace;
