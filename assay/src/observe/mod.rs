//! Record → event → observation: from the bytes on the ring to what the run did.

pub mod beyond;
pub mod decode;
pub mod dns;
pub mod endpoint;
pub mod errno;
pub mod event;
pub mod followed;
pub mod gaps;
pub mod greeting;
pub mod kernel;
pub mod loss;
pub mod names;
pub mod observation;
pub mod path;
pub mod pipeline;
pub mod process;
pub mod quic;
pub mod received;
pub mod repeats;
pub mod resolve;
pub mod stream;
pub mod trace;
pub mod traffic;
pub mod uring;
pub mod witness;
