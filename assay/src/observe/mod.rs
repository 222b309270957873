//! Record → event → observation: from the bytes on the ring to what the run did.

pub mod decode;
pub mod endpoint;
pub mod errno;
pub mod event;
pub mod kernel;
pub mod loss;
pub mod observation;
pub mod path;
pub mod pipeline;
pub mod process;
pub mod resolve;
pub mod stream;
pub mod trace;
pub mod uring;
