//! The table of the catalogue, as it stands in `docs/limits.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::{Category, Shows, cases, is_played};

const BEGIN: &str = "<!-- the catalogue of evasions: made by tests/kernel/evasions/table.rs -->\n";
const END: &str = "<!-- the end of the catalogue -->\n";
/// Writes the page instead of comparing it.
const WRITE: &str = "ASSAY_WRITE_DOCS";

/// Cases that have tests of their own: what is done, what the record shows, which test.
const ELSEWHERE: &[(Category, &str, &str, &str)] = &[
    (
        Category::Leaving,
        "being moved out of the group by somebody outside",
        "acts as ever, and partial: `left-cgroup`",
        "scope::a_process_that_is_moved_out_of_its_group_is_recorded_and_told",
    ),
    (
        Category::Leaving,
        "being moved out by somebody outside when its first thread has ended",
        "acts as ever, and partial: `left-cgroup`",
        "scope::a_process_without_its_first_thread_that_is_moved_out_is_recorded_and_told",
    ),
    (
        Category::Leaving,
        "more processes at once than are watched for leaving (of a run that others are served beside: 2048)",
        "partial (fs, exec, net): `process-table-full`",
        "served::more_processes_than_are_watched_are_counted",
    ),
    (
        Category::Leaving,
        "slipping away from its parent",
        "as any other process",
        "scope::a_process_that_slips_away_from_its_parent_is_still_the_runs",
    ),
    (
        Category::Leaving,
        "another root (`pivot_root`), mounts that are moved",
        "`mount`, then acts by the names it sees",
        "scope::a_mount_that_is_moved_and_a_root_that_is_changed_are_told",
    ),
    (
        Category::Leaving,
        "a sandbox inside (bwrap)",
        "acts by the names it sees",
        "inside::a_sandbox_inside_is_seen_through",
    ),
    (
        Category::Leaving,
        "a second `assay sandbox` inside",
        "as any other process: whatever the inner one says, the outer record has it",
        "inside::a_second_assay_inside_is_seen_through",
    ),
    (
        Category::Leaving,
        "a job left for cron or `at`",
        "`create` in the spool; flagged by `lint`",
        "inside::a_job_left_for_others_is_told_and_flagged",
    ),
    (
        Category::Blinding,
        "a process that gets the number of one that ended before it",
        "each with its own name and parent",
        "scope::a_number_that_is_used_again_is_another_process",
    ),
    (
        Category::Blinding,
        "taking hold of a process outside that has the number of one that ended",
        "partial (fs, exec, net): `other-process`",
        "scope::who_gets_the_number_of_one_of_the_run_later_is_not_of_the_run",
    ),
    (
        Category::Blinding,
        "taking the observer's programs off, with CAP_SYS_ADMIN",
        "partial (fs, exec, net): `bpf-call`",
        "wishes::an_observer_that_was_turned_off_vouches_for_nothing",
    ),
    (
        Category::Blinding,
        "filling the disk beneath the artifacts",
        "each is whole or not there; exit 3",
        "faults::on_a_full_disk_each_artifact_is_whole_or_not_there",
    ),
    (
        Category::Blinding,
        "removing the run's group",
        "partial, and the run ends",
        "faults::a_group_that_is_removed_under_us_is_told_and_the_run_ends",
    ),
    (
        Category::Blinding,
        "processes without end",
        "every birth, or counted lost; all end with the run",
        "faults::a_fork_bomb_against_its_limit_ends_with_the_run",
    ),
    (
        Category::Blinding,
        "trees of 300 directories",
        "whole",
        "names::trees_of_forty_two_hundred_and_three_hundred_directories_are_told_whole",
    ),
    (
        Category::Blinding,
        "more than the ring holds",
        "what is lost is counted, and partial",
        "loss::what_does_not_fit_is_counted_told_and_fatal_when_asked",
    ),
    (
        Category::Blinding,
        "sixteen processes at once",
        "every act, or counted lost",
        "loss::many_processes_at_once_add_up",
    ),
    (
        Category::Blinding,
        "thousands of short processes",
        "every start with its parent",
        "loss::a_storm_of_short_programs_adds_up",
    ),
    (
        Category::Blinding,
        "stopping the observer",
        "what is lost is counted, and partial",
        "loss::what_does_not_fit_is_counted_told_and_fatal_when_asked",
    ),
    (
        Category::Blinding,
        "killing the observer",
        "the command dies; the record says so",
        "shutdown::a_run_whose_observer_was_killed_says_so",
    ),
    (
        Category::Blinding,
        "killing the watchdog",
        "degradation `watchdog-killed`",
        "shutdown::a_run_whose_watchdog_was_killed_still_ends_clean",
    ),
    (
        Category::Blinding,
        "lowering the observer's limits",
        "EPERM",
        "shutdown::a_root_command_cannot_lower_our_limits",
    ),
    (
        Category::Blinding,
        "removing or cutting the trace while it is written",
        "put back, or told and exit 3",
        "kept::a_trace_that_the_command_removed_is_put_back_and_one_it_cut_is_told",
    ),
    (
        Category::Blinding,
        "paths of 4095 bytes",
        "whole",
        "names::paths_are_told_whole_up_to_the_longest_there_is",
    ),
    (
        Category::Blinding,
        "a path longer than any record",
        "partial: `path-cut`",
        "names::a_path_that_is_longer_than_any_record_says_so",
    ),
    (
        Category::Blinding,
        "opening a name that another thread changes all the time",
        "by the file that was opened",
        "evasions::races::a_name_that_another_thread_changes_is_told_by_its_file",
    ),
    (
        Category::Blinding,
        "removing, moving, making or changing a name that another thread changes all the time",
        "by what the kernel did",
        "evasions::races::a_call_on_a_name_that_another_thread_changes_is_told_by_what_was_done",
    ),
    (
        Category::Blinding,
        "sending to an address that another thread changes all the time, by whatever call",
        "by where it went",
        "evasions::races::a_datagram_to_an_address_that_another_thread_changes_is_told_by_where_it_went",
    ),
    (
        Category::Blinding,
        "connecting, or binding, to such an address",
        "by where it went",
        "evasions::races::a_connection_to_an_address_that_another_thread_changes_is_told_by_where_it_went",
    ),
    (
        Category::Blinding,
        "connecting to such an address where nobody is",
        "by where it was refused",
        "evasions::races::a_connection_that_is_refused_is_told_by_where_it_was_refused",
    ),
    (
        Category::Blinding,
        "connecting to such a UNIX address, by path or abstract name",
        "by where it went",
        "evasions::races::a_unix_address_that_another_thread_changes_is_told_by_where_it_went",
    ),
    (
        Category::Door,
        "a connection that was made before the run, or a ring",
        "partial: `inherited-socket`, `inherited-ring`",
        "evasions::races::a_connection_that_was_made_before_is_admitted",
    ),
    (
        Category::Blinding,
        "moving the work directory",
        "`rename`, then acts by its new name",
        "evasions::races::a_work_directory_that_moves_is_told",
    ),
];

fn word(category: Category) -> &'static str {
    match category {
        Category::Door => "another door",
        Category::Leaving => "leaving",
        Category::Blinding => "blinding",
    }
}

fn section() -> String {
    let mut table = String::from("| way | what it does | what the record shows |\n| --- | --- | --- |\n");
    let mut add = |category, act: &str, shows: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {} | {act} | {shows} |", word(category));
    };
    for category in [Category::Door, Category::Leaving, Category::Blinding] {
        for case in cases().filter(|case| case.category == category) {
            let act = match case.setting {
                super::Setting::Given => {
                    format!("through a descriptor that was open before: {}", case.act)
                }
                super::Setting::Plain | super::Setting::Caps(_) => case.act.to_owned(),
            };
            let shows = match case.shows {
                Shows::Told(words) => words.to_owned(),
                Shows::Nothing(why) => format!("nothing happened: {why}"),
                Shows::Admitted(kinds, reason) => format!("partial ({}): `{reason}`", kinds.join(", ")),
            };
            add(category, &act, &shows);
        }
        for (_, act, shows, _) in ELSEWHERE.iter().filter(|(of, ..)| *of == category) {
            add(category, act, shows);
        }
    }
    table
}

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/limits.md")
}

/// How many there are is a promise.
#[test]
fn there_are_enough_cases() {
    let all = cases().filter(|case| is_played(case)).count() + ELSEWHERE.len();
    assert!(all >= 80, "{all} cases");
}

#[test]
fn the_page_has_the_table_of_today() {
    // The machine of `cargo xtask vm` has no pages.
    let Ok(page_now) = std::fs::read_to_string(page()) else { return };
    let (before, rest) = page_now.split_once(BEGIN).expect("where the table begins");
    let (told, after) = rest.split_once(END).expect("where it ends");
    let wanted = section();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(page(), format!("{before}{BEGIN}{wanted}{END}{after}")).expect("the page");
    } else {
        assert!(
            told == wanted,
            "docs/limits.md is behind: run `{WRITE}=1 cargo xtask kernel evasions::table`"
        );
    }
}

/// A test that a row names is one of this binary's.
#[test]
fn the_tests_elsewhere_are_there() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/kernel");
    if !root.is_dir() {
        return;
    }
    let mut missing = BTreeSet::new();
    for (.., test) in ELSEWHERE {
        let (module, name) = test.rsplit_once("::").expect("a module");
        let file = root.join(format!("{}.rs", module.replace("::", "/")));
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if !text.contains(&format!("fn {name}(")) {
            missing.insert(*test);
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
