//! The rules by which names fold. `docs/formats/canonicalisation.md` says what each does. Data.

/// Makes the rules with their names, so that each stands in one place.
macro_rules! fold_rules {
    ($($(#[$doc:meta])* $rule:ident = $name:literal,)*) => {
        /// A rule by which a name of the identity is another than the name in the trace.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FoldRule {
            $($(#[$doc])* $rule,)*
        }

        impl FoldRule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$rule,)*];

            /// Its name in `observed.folded`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

fold_rules! {
    /// A root's path written as a name.
    PlaceName = "place-name",
    /// The X's of a template that stood in some arguments.
    Template = "template",
    /// The random part of a form that a well-known program uses.
    TempName = "temp-name",
    /// What chance drew.
    Random = "random",
    /// The user's name.
    User = "user",
    /// The user's id.
    UserId = "user-id",
    /// The host's name.
    Hostname = "hostname",
    /// A uuid.
    Uuid = "uuid",
    /// A date or a time of the run.
    Time = "time",
    /// The id of who made it.
    Pid = "pid",
    /// A long number.
    Number = "number",
    /// An address in memory.
    Address = "address",
    /// A hash.
    Hash = "hash",
    /// A name in a git object store.
    GitObject = "git-object",
    /// What is added to the name of the target.
    DerivedName = "derived-name",
    /// A temporary name that became another.
    TempRename = "temp-rename",
    /// A process in `/proc`.
    ProcPid = "proc-pid",
    /// The run's control group, or one above it.
    Cgroup = "cgroup",
    /// A terminal.
    Terminal = "terminal",
    /// A file without a name.
    Nameless = "nameless",
    /// A root by another path than `observed.roots` has.
    RootAlias = "root-alias",
    /// A root that lies beneath a mount of the run once more.
    MountedRoot = "mounted-root",
    /// The name that the kernel gives a socket.
    Autobind = "autobind",
    /// The command's output.
    Stdio = "stdio",
    /// A port of the kernel's choice.
    EphemeralPort = "ephemeral-port",
    /// A name that another one folded to.
    Itself = "itself",
}
