//! How long things may be, and why each number is that number.

/// A path string passed to a call: the kernel itself refuses more than `PATH_MAX` with its NUL.
pub const STRING_LEN: usize = 4096;

/// A name in a directory, with its NUL (`NAME_MAX` + 1).
pub const NAME_LEN: usize = 256;

/// A resolved path: longer than `PATH_MAX`, because a relative string may start in a directory that deep already.
/// What is longer is marked as cut.
pub const CHAIN_LEN: usize = 16 * 1024;

/// Directories and mounts a resolved path may lead through.
pub const CHAIN_STEPS: u32 = 4096;

/// Arguments of a program that are kept; more is marked as cut. The kernel allows megabytes, the identity needs none.
pub const ARGV_LEN: usize = 16 * 1024;

/// A socket address: `sizeof(struct sockaddr_storage)`.
pub const SOCKADDR_LEN: usize = 128;

/// A task's `comm`.
pub const COMM_LEN: usize = 16;

/// Where a record under construction ends. A power of two, because the verifier likes masks.
pub const RECORD_LEN: usize = 64 * 1024;

/// Room behind it, so that the longest single read that starts below `RECORD_LEN` stays inside.
pub const RECORD_SLACK: usize = 16 * 1024;

/// The string under resolution, with the links expanded into it. Links are put in front, so it is filled from the middle.
pub const WALK_LEN: usize = 16 * 1024;

/// Where in that room the string of the call starts: what lies before is for links.
pub const WALK_START: usize = 8 * 1024;

/// Steps a resolution may take: components, slashes, mounts and links together.
pub const WALK_STEPS: u32 = 8192;

/// Links a resolution may follow (the kernel's own limit).
pub const WALK_LINKS: u32 = 40;

/// Cached children of one directory looked through for one name, at about 40 ns each. Beyond it userspace looks up.
pub const WALK_CHILDREN: u32 = 8192;

/// Mounts below one mount looked through.
pub const WALK_MOUNTS: u32 = 4096;

/// Places on each processor where acts like one that was sent are counted. A power of two. Two acts that meet in one place
/// take turns, and are sent each time.
pub const REPEAT_PLACES: u32 = 4096;

/// The fewest of them, on hosts with many processors: all together are to stay within some megabytes.
pub const REPEAT_PLACES_LEAST: u32 = 64;

/// How many processors have as many as there can be.
pub const REPEAT_PROCESSORS: u32 = 16;

/// Names and mounts above a file that is counted; one that lies deeper is sent each time.
pub const REPEAT_STEPS: u32 = 64;

/// The ring. At about 200 bytes a record this holds 160 000 records, some 150 ms of two processors that do nothing
/// but open files.
pub const RING_BYTES: u32 = 32 * 1024 * 1024;

/// The smallest ring that the kernel makes: a page of x86-64, the only machine that the calls are known for.
pub const LEAST_RING_BYTES: u32 = 4096;

/// The ring of the second witness, apart from the first's, so that what the one sends never costs the other a record.
pub const WITNESS_RING_BYTES: u32 = 16 * 1024 * 1024;

/// Records of the second witness under construction, at most and at least. A power of two; userspace chooses by the number of
/// processors.
pub const WITNESS_SLOTS: u32 = 256;
/// See [`WITNESS_SLOTS`].
pub const WITNESS_SLOTS_LEAST: u32 = 8;

/// Processors: one record under construction on each.
pub const MAX_CPUS: u32 = 1024;

/// Messages of one `sendmmsg` that are told one by one (`UIO_MAXIOV`).
pub const MMSG_LEN: u32 = 1024;

/// Requests of one `io_submit` that are looked at; the kernel takes as many as the queue holds. Beyond it the record says so.
pub const AIO_LEN: u32 = 4096;

/// Names that calls gave back to the kernel and that were not told yet: those of two for each call between there and its
/// return, which is a moment.
pub const TAKEN_LEN: u32 = 512;

/// Messages of one `sendmmsg` whose addresses are told by the kernel's own copies. A power of two. Of a longer one they are
/// read from the program's memory, and the record says so.
pub const AIMED_LEN: usize = 32;

/// Calls at a time whose addresses are kept until they return.
pub const AIMS_LEN: u32 = 512;

/// Processes of all runs alive at one time that are watched for leaving their group.
pub const PROCESSES_LEN: u32 = 128 * 1024;

/// Processes that left the group of their run and live, of all runs.
pub const LEAVERS_LEN: u32 = 4096;

/// Files that were open for writing before the run, and sockets.
pub const INHERITED_LEN: u32 = 1024;

/// The ring of a run that is served beside others. A run in 25 of its like fills a processor, so that it holds what the
/// whole ring does for a run that has two; hundreds of them fit into a host's memory.
pub const SERVED_RING_BYTES: u32 = 4 * 1024 * 1024;

/// [`REPEAT_PLACES`] of such a run, of all processors together: 160 KiB.
pub const SERVED_REPEAT_PLACES: u32 = 2048;

/// [`PROCESSES_LEN`] of such a run, so that one with many processes leaves room for those of others.
pub const SERVED_PROCESSES_LEN: u32 = 2048;

/// [`LEAVERS_LEN`] of such a run.
pub const SERVED_LEAVERS_LEN: u32 = 64;

/// [`INHERITED_LEN`] of such a run.
pub const SERVED_INHERITED_LEN: u32 = 256;

/// [`TAKEN_LEN`] and [`AIMS_LEN`] of all such runs together: there are more tasks that may be interrupted on their way.
pub const SERVED_CALLS_LEN: u32 = 2048;

/// Descriptors of one message that are told one by one (`SCM_MAX_FD`).
pub const RECEIVED_LEN: u32 = 253;

/// Bytes of a packet that are kept where it carries no more: most answers of name servers, which fit into 512.
pub const PACKET_SMALL: usize = 512;

/// Bytes of a packet that are kept at most: the longest answer that a resolver says it takes (EDNS), and any greeting.
pub const PACKET_LARGE: usize = 4096;

/// A name as it stands in a message, and as a key of a trie, which takes no more.
pub const HOST_LEN: usize = 256;

/// Records of one answer that are looked at in the kernel; no answer of 4 KiB has more addresses.
pub const ANSWER_RECORDS: u32 = 256;

/// Ends that the traffic of one run is counted by. What has no room is counted together.
pub const TRAFFIC_LEN: u32 = 4096;

/// Addresses of names that a policy speaks of, in one run.
pub const ADDRESSES_LEN: u32 = 64 * 1024;
