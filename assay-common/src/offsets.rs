//! The list of kernel fields the programs need, by struct and field name. Their offsets come from the running
//! kernel's BTF; Rust emits no CO-RE relocations.

/// Marks a field that this kernel does not have.
pub const MISSING: u32 = u32::MAX;

/// One wanted field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The struct's name in BTF.
    pub of: &'static str,
    /// The field; a dot goes into a named member, anonymous ones are looked through.
    pub field: &'static str,
    /// The name it had on older kernels, or empty.
    pub older: &'static str,
    /// Whether the observer can do without it.
    pub is_optional: bool,
    /// Whether a kernel that does not have it has no need of it either.
    pub is_of_older: bool,
}

/// Wanted bit fields: struct and field.
pub const BITS: [(&str, &str); 2] = [("sock", "sk_userlocks"), ("io_ring_ctx", "compat")];

/// Whether the word of a field begins with `until`.
const fn is_until(word: &str) -> bool {
    matches!(word.as_bytes(), [b'u', b'n', b't', b'i', b'l', ..])
}

macro_rules! offsets {
    ($($name:ident = $of:literal . $field:literal $(or $older:literal)? $(; $optional:ident)?),* $(,)?) => {
        /// Byte offsets, one per wanted field; [`MISSING`] where there is none.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[cfg_attr(feature = "user", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
        #[repr(C)]
        pub struct Offsets {
            $(#[doc = concat!("`", $of, ".", $field, "`")] pub $name: u32,)*
            /// Not an offset: the bit of `dentry.d_flags` that marks a mount point (an enumerator, or 1<<16).
            pub mounted_flag: u32,
            /// In bits: `sock.sk_userlocks`, four bits of which one says that the program chose the port.
            pub userlocks_bit: u32,
            /// In bits: `io_ring_ctx.compat`, whether a ring was made by the 32-bit entry.
            pub ring_compat_bit: u32,
        }

        /// The wanted fields, in the order of [`Offsets`].
        pub const FIELDS: &[Field] = &[
            $(Field {
                of: $of,
                field: $field,
                older: concat!($($older)?),
                // Any word after the semicolon makes it optional.
                is_optional: !stringify!($($optional)?).is_empty(),
                is_of_older: is_until(stringify!($($optional)?)),
            },)*
        ];

        impl Offsets {
            /// Nothing known.
            pub const UNKNOWN: Self = Self {
                $($name: MISSING,)*
                mounted_flag: 1 << 16,
                userlocks_bit: MISSING,
                ring_compat_bit: MISSING,
            };

            /// Builds the table by asking for each field in turn; the answer is its offset or [`MISSING`].
            pub fn from_answers(
                mut ask: impl FnMut(&Field) -> u32,
                mounted_flag: u32,
                [userlocks_bit, ring_compat_bit]: [u32; BITS.len()],
            ) -> Self {
                let mut fields = FIELDS.iter();
                Self {
                    $($name: fields.next().map_or(MISSING, &mut ask),)*
                    mounted_flag,
                    userlocks_bit,
                    ring_compat_bit,
                }
            }

            /// The offsets in the order of [`FIELDS`].
            pub fn fields(&self) -> impl Iterator<Item = u32> {
                [$(self.$name),*].into_iter()
            }
        }
    };
}

offsets! {
    task_files = "task_struct"."files",
    task_fs = "task_struct"."fs",
    task_mm = "task_struct"."mm",
    task_pid = "task_struct"."pid",
    task_tgid = "task_struct"."tgid",
    task_exit_code = "task_struct"."exit_code",
    task_signal = "task_struct"."signal",
    signal_live = "signal_struct"."live",
    task_nsproxy = "task_struct"."nsproxy",
    task_cgroups = "task_struct"."cgroups",
    task_status = "task_struct"."thread_info.status",
    task_real_parent = "task_struct"."real_parent",
    files_fdt = "files_struct"."fdt",
    fdt_fd = "fdtable"."fd",
    fdt_max = "fdtable"."max_fds",
    file_path = "file"."f_path",
    file_inode = "file"."f_inode",
    file_mode = "file"."f_mode",
    file_flags = "file"."f_flags",
    file_private = "file"."private_data",
    path_mnt = "path"."mnt",
    path_dentry = "path"."dentry",
    dentry_parent = "dentry"."d_parent",
    dentry_name = "dentry"."d_name",
    dentry_inode = "dentry"."d_inode",
    dentry_flags = "dentry"."d_flags",
    dentry_hash = "dentry"."d_hash",
    dentry_seq = "dentry"."d_seq",
    dentry_sibling = "dentry"."d_sib" or "d_child",
    dentry_children = "dentry"."d_children" or "d_subdirs",
    qstr_name = "qstr"."name",
    qstr_len = "qstr"."len",
    qstr_hash = "qstr"."hash_len",
    mount_mnt = "mount"."mnt",
    mount_parent = "mount"."mnt_parent",
    mount_point = "mount"."mnt_mountpoint",
    mount_mounts = "mount"."mnt_mounts",
    mount_child = "mount"."mnt_child",
    mount_ns = "mount"."mnt_ns",
    namespace_common = "mnt_namespace"."ns",
    namespace_inum = "ns_common"."inum",
    vfsmount_root = "vfsmount"."mnt_root",
    inode_mode = "inode"."i_mode",
    inode_nlink = "inode"."i_nlink",
    inode_ino = "inode"."i_ino",
    inode_generation = "inode"."i_generation",
    inode_sb = "inode"."i_sb",
    inode_link = "inode"."i_link",
    inode_size = "inode"."i_size",
    sb_dev = "super_block"."s_dev",
    sb_magic = "super_block"."s_magic",
    fs_root = "fs_struct"."root",
    fs_pwd = "fs_struct"."pwd",
    mm_arg_start = "mm_struct"."arg_start",
    mm_arg_end = "mm_struct"."arg_end",
    bprm_file = "linux_binprm"."file",
    bprm_filename = "linux_binprm"."filename",
    bprm_interp = "linux_binprm"."interp",
    nsproxy_mnt = "nsproxy"."mnt_ns",
    socket_type = "socket"."type",
    socket_sk = "socket"."sk",
    sk_family = "sock_common"."skc_family",
    sk_num = "sock_common"."skc_num",
    sk_rcv_saddr = "sock_common"."skc_rcv_saddr",
    sk_rcv_saddr6 = "sock_common"."skc_v6_rcv_saddr"; ipv6_may_be_absent,
    sk_daddr = "sock_common"."skc_daddr",
    sk_daddr6 = "sock_common"."skc_v6_daddr"; ipv6_may_be_absent,
    sk_dport = "sock_common"."skc_dport",
    sk_cookie = "sock_common"."skc_cookie",
    sk_protocol = "sock"."sk_protocol",
    sk_peer_pid = "sock"."sk_peer_pid",
    sk_peer_cred = "sock"."sk_peer_cred",
    cred_uid = "cred"."uid",
    pid_numbers = "pid"."numbers",
    pid_tasks = "pid"."tasks",
    task_pid_links = "task_struct"."pid_links",
    task_comm = "task_struct"."comm",
    mm_exe_file = "mm_struct"."exe_file",
    upid_nr = "upid"."nr",
    unix_addr = "unix_sock"."addr"; unix_may_be_a_module,
    unix_path = "unix_sock"."path"; unix_may_be_a_module,
    unix_peer = "unix_sock"."peer"; unix_may_be_a_module,
    unix_len = "unix_address"."len"; unix_may_be_a_module,
    unix_name = "unix_address"."name"; unix_may_be_a_module,
    css_dfl = "css_set"."dfl_cgrp",
    cgroup_kn = "cgroup"."kn",
    cgroup_level = "cgroup"."level",
    cgroup_root = "cgroup"."root",
    cgroup_ancestors = "cgroup"."ancestors"; older_kernels_keep_ids,
    kn_id = "kernfs_node"."id",
    filename_name = "filename"."name"; uring,
    filename_uptr = "filename"."uptr"; names_as_given,
    filename_iname = "filename"."iname"; names_as_given,
    cache_name = "kmem_cache"."name"; names_as_given,
    req_opcode = "io_kiocb"."opcode"; uring,
    req_cqe = "io_kiocb"."cqe"; uring,
    req_ctx = "io_kiocb"."ctx"; uring,
    req_async_data = "io_kiocb"."async_data"; uring,
    cqe_res = "io_cqe"."res"; uring,
    open_dfd = "io_open"."dfd"; uring,
    open_slot = "io_open"."file_slot"; uring,
    open_filename = "io_open"."filename"; uring,
    open_how = "io_open"."how"; uring,
    unlink_dfd = "io_unlink"."dfd"; uring,
    unlink_flags = "io_unlink"."flags"; uring,
    unlink_filename = "io_unlink"."filename"; uring,
    rename_old_dfd = "io_rename"."old_dfd"; uring,
    rename_new_dfd = "io_rename"."new_dfd"; uring,
    rename_oldpath = "io_rename"."oldpath"; uring,
    rename_newpath = "io_rename"."newpath"; uring,
    rename_flags = "io_rename"."flags"; uring,
    mkdir_dfd = "io_mkdir"."dfd"; uring,
    mkdir_filename = "io_mkdir"."filename"; uring,
    link_old_dfd = "io_link"."old_dfd"; uring,
    link_new_dfd = "io_link"."new_dfd"; uring,
    link_oldpath = "io_link"."oldpath"; uring,
    link_newpath = "io_link"."newpath"; uring,
    link_flags = "io_link"."flags"; uring,
    connect_addr = "io_connect"."addr"; uring,
    connect_addr_len = "io_connect"."addr_len"; uring,
    xattr_filename = "io_xattr"."filename"; uring,
    socket_domain = "io_socket"."domain"; uring_since_5_19,
    socket_kind = "io_socket"."type"; uring_since_5_19,
    socket_protocol = "io_socket"."protocol"; uring_since_5_19,
    message_user = "io_sr_msg"."umsg"; uring,
    message_flags = "io_sr_msg"."flags"; uring,
    sent_addr = "io_sr_msg"."addr"; until_6_10,
    sent_addr_len = "io_sr_msg"."addr_len"; until_6_10,
    bind_addr_len = "io_bind"."addr_len"; uring_since_6_11,
    async_addr = "io_async_msghdr"."addr"; uring,
    async_msg = "io_async_msghdr"."msg"; uring,
    msg_namelen = "msghdr"."msg_namelen"; uring,
    msg_name = "msghdr"."msg_name"; witness,
}

/// Settings of one load, a global of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct Settings {
    /// Depth of the runs' groups below the root of the hierarchy.
    pub level: u32,
    /// Whether any file was open for writing before the run: without one, writes are not looked at.
    pub watch_writes: u32,
    /// The observer's own process id, never recorded.
    pub observer: u32,
    /// Whether a packet's program may ask for its network namespace.
    pub can_ask_netns: u32,
    /// The network namespace that runs begin in, as `SO_NETNS_COOKIE` has it.
    pub netns: u64,
    /// Whether acts like one that was sent are counted and not sent.
    pub counts_repeats: u32,
    /// What becomes of calls that failed without being refused: [`crate::loss::failed`].
    pub failures: u32,
    /// Places of each processor where repeats are counted: a power of two.
    pub repeat_places: u32,
    /// Records of the second witness that can be under construction: a power of two.
    pub witness_slots: u32,
    /// Whether the kernel's own copies of names are seen.
    pub takes_names: u32,
    /// Whether the kernel's own copies of addresses are seen.
    pub hears_addresses: u32,
    /// A number that nobody can know: see `assay-ebpf/src/again.rs`.
    pub seed: u64,
    /// The group of the only run, whose number is [`crate::served::ONLY_RUN`].
    pub group: u64,
    /// The group whose children are the groups of runs, where there are [`Settings::slots`].
    pub parent: u64,
    /// How many runs are served at once, each with settings of its own ([`crate::served::Served`]); 0 for the only one.
    pub slots: u32,
    /// Places where repeats are counted, of all processors together, for one run.
    pub slot_places: u32,
    /// How many processes of one run are watched for leaving its group.
    pub processes: u32,
    /// How many that have left are a run's still.
    pub leavers: u32,
}
