//! Record → event → observation: from the bytes on the ring to what the run did.

pub mod loss;
pub mod observation;
pub mod trace;
