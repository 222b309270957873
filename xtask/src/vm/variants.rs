//! The ways to boot, as data: what the kernel is told, what is kept from it, and which tests that concerns.

/// A way to boot.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub name: &'static str,
    pub what: &'static str,
    /// Words for the kernel's command line.
    pub options: &'static str,
    /// What `/init` hides or leaves out; a kernel test holds the machine to these words.
    pub without: &'static [&'static str],
    /// The tests that this way to boot is for; all of them, emulated, take long.
    pub filters: &'static [&'static str],
    /// Whether it holds the commands that the oracle watches; they take most of its memory.
    pub has_commands: bool,
}

/// What every machine is asked: `assay doctor`, a record or a refusal, and what is not held.
const HOST: &[&str] = &["hosts::"];

const PLAIN: Variant = Variant {
    name: "",
    what: "",
    options: "lsm=landlock,bpf",
    without: &[],
    filters: HOST,
    has_commands: false,
};

/// All of them, the longest first: they are booted two at a time.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "bpf-lsm",
        what: "Landlock and BPF LSM programs",
        filters: &[
            "clock::",
            "load::",
            "oracle::",
            "witness::",
            "enforce::",
            "confined::",
            "hosts::",
            "degraded::",
            "matrix::",
            "net_matrix::",
        ],
        has_commands: true,
        ..PLAIN
    },
    Variant {
        name: "no-landlock",
        what: "no Landlock",
        options: "lsm=bpf",
        filters: &["load::", "oracle::find_delete", "hosts::", "degraded::", "matrix::", "net_matrix::"],
        ..PLAIN
    },
    Variant {
        name: "no-bpf-lsm",
        what: "no BPF LSM programs",
        options: "lsm=landlock",
        filters: &["load::", "hosts::", "witness::"],
        ..PLAIN
    },
    Variant { name: "no-lsm", what: "neither of both", options: "lsm=", ..PLAIN },
    Variant { name: "no-btf", what: "no BTF exposed", without: &["btf"], ..PLAIN },
    Variant { name: "no-tracefs", what: "no tracefs", without: &["tracefs"], ..PLAIN },
    Variant { name: "cgroup-v1", what: "control groups of version 1 only", without: &["cgroup2"], ..PLAIN },
    Variant {
        name: "lockdown-integrity",
        what: "nobody changes the kernel",
        options: "lsm=lockdown,landlock,bpf lockdown=integrity",
        ..PLAIN
    },
    Variant {
        name: "lockdown-confidentiality",
        what: "nobody reads the kernel's memory",
        options: "lsm=lockdown,landlock,bpf lockdown=confidentiality",
        ..PLAIN
    },
    Variant {
        name: "lockdown-untold",
        what: "the same, and nobody says so",
        options: "lsm=lockdown,landlock,bpf lockdown=confidentiality",
        without: &["securityfs"],
        ..PLAIN
    },
];

impl Variant {
    /// The kernel's command line. What is for `/init` and the tests begins with `assay.`.
    pub fn command_line(&self, filters: &[String]) -> String {
        let own: Vec<String> = self.filters.iter().map(|filter| (*filter).to_owned()).collect();
        let filters = if filters.is_empty() { own } else { filters.to_vec() };
        format!(
            "console=ttyS0 quiet panic=-1 no_timer_check {} assay.vm={} assay.without={} assay.tests={}",
            self.options,
            self.name,
            self.without.join(","),
            filters.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_machine_is_asked_what_it_is() {
        let mut names: Vec<&str> = VARIANTS.iter().map(|one| one.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIANTS.len());
        for one in VARIANTS {
            assert!(one.filters.contains(&"hosts::"), "{}", one.name);
            // What the test `hosts::a_booted_machine_is_what_its_row_says` looks for.
            let known = ["btf", "cgroup2", "tracefs", "securityfs"];
            assert!(one.without.iter().all(|word| known.contains(word)), "{}", one.name);
        }
    }

    #[test]
    fn a_command_line_is_one_that_the_kernel_takes_whole() {
        for one in VARIANTS {
            // COMMAND_LINE_SIZE on x86.
            let line = one.command_line(&[]);
            assert!(line.len() < 2048 && line.is_ascii(), "{line}");
        }
    }
}
