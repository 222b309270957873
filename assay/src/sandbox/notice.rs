//! What a run tells its user while it lasts. Printing is somebody else's work.

/// Takes one fact a call.
pub trait Notices {
    /// Something went wrong.
    fn error(&self, text: &str);
    /// A complaint that begins with its own place (`FILE:LINE:COL:`).
    fn problem(&self, text: &str);
    /// Something to act on.
    fn warning(&self, text: &str);
    /// What to do about the line before.
    fn hint(&self, text: &str);
    /// A fact.
    fn note(&self, text: &str);
    /// A fact for who asks for more.
    fn detail(&self, text: &str);
}
