//! What can be tested without privileges, from outside: one binary, one module a subject.

mod freshness;
mod oracle;
