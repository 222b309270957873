//! What tools of this kind got wrong for others, and the tests that hold us to better: kind of fault, then the tests.

use std::collections::BTreeSet;
use std::path::PathBuf;

const REPORTED: &[(&str, &[&str])] = &[
    (
        "a rule for a device file was refused or dropped, for it got the rights of a directory",
        &[
            "devices::a_device_that_a_rule_names_works_without_the_base",
            "devices::what_is_asked_of_a_device_needs_the_right_to_write_it",
        ],
    ),
    (
        "an ordinary shell, a script by its bare name, an interpreter behind a link: not granted what they need",
        &[
            "enforce::ordinary_programs_work_under_the_built_in_policy",
            "exec_matrix::each_door_to_a_program_is_as_the_policy_says_or_named",
        ],
    ),
    (
        "names relative to a descriptor were resolved against the working directory, or too late",
        &[
            "file::paths_start_in_the_directory_of_the_descriptor",
            "file::another_directory_on_the_same_number_is_another_directory",
        ],
    ),
    (
        "programs by descriptor, from memory, or without a first line were not seen",
        &[
            "exec::an_image_without_a_name_is_told_as_one",
            "exec::a_script_without_an_interpreter_is_run_by_the_shell",
        ],
    ),
    (
        "looking for a program along PATH was counted as running it",
        &["exec::looking_along_path_is_not_running"],
    ),
    (
        "rules about names were dodged by /proc/self/root, links and ..",
        &["matrix::a_denied_file_does_not_pass_in_silence", "names::names_go_where_links_and_dots_lead"],
    ),
    (
        "a denied name that is a link was opened by the file's own name",
        &["enforce::a_denied_name_that_is_a_link_is_held_itself"],
    ),
    (
        "a denied file was replaced by a rename or an exchange, or its directory was moved away",
        &[
            "matrix::a_denied_file_does_not_pass_in_silence",
            "matrix::a_denied_directory_does_not_pass_in_silence",
        ],
    ),
    (
        "a denied file was reached by a hard link",
        &[
            "other_names::a_hard_link_from_before_the_run_leads_to_no_denied_file",
            "matrix::a_denied_file_does_not_pass_in_silence",
        ],
    ),
    (
        "renames between allowed directories failed for want of a right",
        &[
            "unapplied::what_is_allowed_can_be_moved_from_one_place_to_the_other",
            "matrix::what_is_allowed_is_not_blocked",
        ],
    ),
    (
        "git in a work tree beside its repository failed at every command",
        &[
            "held::git_works_in_a_worktree_under_its_recipe",
            "inside::a_work_tree_beside_the_repository_is_told_where_it_lies",
        ],
    ),
    ("sudo, su and ping failed without a word why", &["rights::what_no_new_privs_will_break_is_listed"]),
    (
        "pairs of sockets, and sockets in the work directory, were refused; runtimes that wake themselves by them ended",
        &[
            "enforce::without_a_network_rule_there_is_no_network_but_sockets_of_its_own",
            "enforce::sockets_of_others_cannot_be_reached_and_its_own_can",
        ],
    ),
    (
        "a container engine or the user's bus was asked to go on outside, and nobody said so",
        &["modes::work_that_leaves_the_tree_is_told"],
    ),
    (
        "an address in another form passed a rule",
        &[
            "enforce::the_network_is_held_by_address_port_and_family",
            "net_matrix::each_way_to_each_endpoint_is_as_the_policy_says",
        ],
    ),
    (
        "requests to an io_uring were not recorded; a Node program's files neither",
        &[
            "uring::requests_on_names_are_told_like_calls",
            "uring::requests_to_sockets_are_told_like_calls",
            "inside::files_of_a_node_program_with_a_ring_are_told",
        ],
    ),
    (
        "many processes at once were neither seen nor counted lost",
        &["loss::many_processes_at_once_add_up", "flood::what_was_made_is_seen_or_counted_lost"],
    ),
    ("short processes were missing, and the tree was broken", &["loss::a_storm_of_short_programs_adds_up"]),
    ("the first program and what it opened were missed", &["exec::nothing_is_missed_at_the_start"]),
    (
        "long paths were cut without a mark",
        &[
            "names::paths_are_told_whole_up_to_the_longest_there_is",
            "names::trees_of_forty_two_hundred_and_three_hundred_directories_are_told_whole",
            "names::a_path_that_is_longer_than_any_record_says_so",
        ],
    ),
    (
        "paths inside a namespace, another root or another sandbox were told by the wrong root",
        &[
            "inside::a_bind_mount_in_a_namespace_of_its_own_is_the_tree_the_program_sees",
            "scope::paths_are_those_of_the_hosts_tree_inside_another_root",
            "inside::a_sandbox_inside_is_seen_through",
        ],
    ),
    (
        "a policy that was learned opened a secret beside what was read",
        &[
            "held::what_was_learned_is_enough_and_no_more",
            "recipes::a_python_project_is_tested_and_a_test_reads_no_credentials",
        ],
    ),
    (
        "rules that could not be applied were called enforced",
        &[
            "unapplied::a_policy_that_cannot_be_applied_stops_the_command",
            "degradations::where_all_must_be_held_the_command_does_not_start",
            "degraded::what_must_hold_is_refused_before_anything_ran",
        ],
    ),
    (
        "learning broke the workload, and there was no profile",
        &["inside::the_removal_of_a_tree_is_told_name_by_name"],
    ),
];

/// A test that a row names is one of this binary's.
#[test]
fn every_report_has_its_tests() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/kernel");
    // The machine of `cargo xtask vm` has no sources.
    if !root.is_dir() {
        return;
    }
    let mut missing = BTreeSet::new();
    for (kind, tests) in REPORTED {
        assert!(!tests.is_empty(), "{kind}");
        for test in *tests {
            let (module, name) = test.rsplit_once("::").expect("a module");
            let file = root.join(format!("{}.rs", module.replace("::", "/")));
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let before = text.split_once(&format!("\nfn {name}(")).map(|(before, _)| before);
            let is_test = before
                .is_some_and(|text| text.rsplit("\n\n").next().is_some_and(|head| head.contains("#[test]")));
            if !is_test {
                missing.insert(*test);
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
