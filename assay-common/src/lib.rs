//! What crosses the ring.
