# What a root command may wish: to undo what observes and holds it. Out: a line for each wish that was granted, and how
# many there were. With `observed` as an argument only those that a command that nothing holds may try on a host that it
# shares; with `blind` it turns the observer off through `bpf`, and acts.
import ctypes, os, resource, signal, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
watcher = os.getppid()


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def call(number, *args):
    return check(libc.syscall(number, *args))


def control_groups():
    for line in open("/proc/self/mountinfo"):
        if " - cgroup2 " in line:
            return line.split(" ")[4]
    raise OSError("no control groups")


def own_group():
    for line in open("/proc/self/cgroup"):
        if line.startswith("0::"):
            return line.rstrip()[3:]


def write_group(name, text):
    with open(f"{control_groups()}{name}", "w") as file:
        file.write(text)


def write_group_mounted_anew():
    # fsopen, FSCONFIG_CMD_CREATE, fsmount
    context = call(430, b"cgroup2", 0)
    call(431, context, 6, 0, 0, 0)
    mount = call(432, context, 0, 0)
    file = os.open("cgroup.procs", os.O_WRONLY, dir_fd=mount)
    os.write(file, b"0")


MOUNTS, GROUPS, USERS = 0x20000, 0x2000000, 0x10000000


def in_user_namespace():
    check(libc.unshare(USERS | MOUNTS))
    check(libc.umount2(b".git/hooks", 2))


def unhold():
    # mount_setattr that takes MOUNT_ATTR_RDONLY away, and the write that follows
    call(442, -100, b".git/hooks", 0, struct.pack("QQQQ", 0, 1, 0, 0), 32)
    open(".git/hooks/pre-commit", "w").close()
    os.unlink(".git/hooks/pre-commit")


def read_memory(pid):
    with open(f"/proc/{pid}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    buffer = ctypes.create_string_buffer(8)
    vec = (ctypes.c_uint64 * 2)(ctypes.addressof(buffer), 8)
    far = (ctypes.c_uint64 * 2)(start, 8)
    check(libc.process_vm_readv(pid, vec, 1, far, 1, 0))


def enter_by_pidfd(pid, kind):
    check(libc.setns(os.pidfd_open(pid), kind))


def by_handle(path):
    # name_to_handle_at, open_by_handle_at
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    mount = ctypes.c_int()
    call(303, -100, path.encode(), handle, ctypes.byref(mount), 0)
    # Any open file of that filesystem stands for its mount.
    file = call(304, os.open(".", os.O_RDONLY), handle, os.O_RDONLY)
    return os.read(file, 1)


def bpf(command, attributes):
    room = ctypes.create_string_buffer(bytes(attributes).ljust(128, b"\0"), 128)
    return call(321, command, room, 128), room.raw


def ids(command):
    last = 0
    while True:
        try:
            last = struct.unpack_from("I", bpf(command, struct.pack("I", last))[1], 4)[0]
        except FileNotFoundError:
            return
        yield last


def opened(command):
    for number in ids(command - {13: 2, 14: 2, 30: -1}[command]):
        try:
            yield number, bpf(command, struct.pack("I", number))[0]
        except FileNotFoundError:
            # Somebody else's, and gone meanwhile.
            continue


def info(fd, before=b""):
    room = ctypes.create_string_buffer(before, 256)
    bpf(15, struct.pack("IIQ", fd, 256, ctypes.addressof(room)))
    return room.raw


def name_of_map(fd):
    return info(fd)[24:40].split(b"\0")[0]


# Never those of another run: this one's are known by its group.
def own_links():
    group = os.stat(control_groups() + own_group()).st_ino
    for _, fd in opened(30):
        if struct.unpack_from("I", info(fd))[0] == 3 and struct.unpack_from("Q", info(fd), 16)[0] == group:
            yield fd


def own_maps():
    group = struct.pack("Q", os.stat(control_groups() + own_group()).st_ino)
    key, value = ctypes.create_string_buffer(group, 8), ctypes.create_string_buffer(64)
    runs = set()
    for number, fd in opened(14):
        if name_of_map(fd) == b"RUNS":
            try:
                bpf(1, struct.pack("IIQQ", fd, 0, ctypes.addressof(key), ctypes.addressof(value)))
                runs.add(number)
            except FileNotFoundError:
                pass
    for _, fd in opened(13):
        maps = (ctypes.c_uint32 * 64)()
        raw = info(fd, bytes(52) + struct.pack("=IQ", 64, ctypes.addressof(maps)))
        numbers = set(maps[: struct.unpack_from("I", raw, 52)[0]])
        if numbers & runs:
            return numbers
    raise OSError("no observer")


def detach_links():
    done = [bpf(34, struct.pack("I", fd)) for fd in own_links()]
    check(-1 if not done else 0)


def replace_programs():
    # BPF_LINK_UPDATE with a program of the same kind: one that another link has
    for fd in own_links():
        bpf(29, struct.pack("II", fd, bpf(13, info(fd)[8:12])[0]))
        return
    raise OSError("no link")


def detach_programs():
    group = os.open(control_groups() + own_group(), os.O_RDONLY)
    for fd in own_links():
        kind = struct.unpack_from("I", info(fd), 24)[0]
        bpf(9, struct.pack("IIII", group, bpf(13, info(fd)[8:12])[0], kind, 0))
        return
    raise OSError("no link")


def pin_maps():
    for number in own_maps():
        path = ctypes.create_string_buffer(b"/sys/fs/bpf/assay-wish")
        bpf(6, struct.pack("QI", ctypes.addressof(path), bpf(14, struct.pack("I", number))[0]))
        os.unlink(path.value)


def turn_off():
    # Without its tails the observer's first program sends nothing.
    key = ctypes.c_uint32()
    for number in own_maps():
        fd = bpf(14, struct.pack("I", number))[0]
        if name_of_map(fd) != b"TAILS":
            continue
        for slot in range(32):
            key.value = slot
            try:
                bpf(3, struct.pack("IIQ", fd, 0, ctypes.addressof(key)))
            except OSError:
                pass
        return
    raise OSError("no observer")


def module():
    call(175, b"", 0, b"")


if sys.argv[1:] == ["blind"]:
    turn_off()
    open("unseen", "w").close()
    sys.exit(0)

# What it may do with itself it still may.
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.setpriority(os.PRIO_PROCESS, os.getpid(), 6)
os.sched_setaffinity(0, os.sched_getaffinity(0))
resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (0, 0))

# What nobody is kept from who is not held, and what would end the run or change the host.
RUINOUS = {
    "signal the observer": lambda: os.kill(watcher, 0),
    "kill the observer": lambda: os.kill(watcher, signal.SIGKILL),
    "stop the observer": lambda: os.kill(watcher, signal.SIGSTOP),
    "kill the observer by a descriptor": lambda: signal.pidfd_send_signal(os.pidfd_open(watcher), signal.SIGKILL),
    "slow the observer down": lambda: os.setpriority(os.PRIO_PROCESS, watcher, 19),
    "slow its group down": lambda: os.setpriority(os.PRIO_PGRP, 0, 19),
    "slow all of root down": lambda: os.setpriority(os.PRIO_USER, 0, 19),
    "let the observer idle": lambda: os.sched_setscheduler(watcher, os.SCHED_IDLE, os.sched_param(0)),
    "pin the observer": lambda: os.sched_setaffinity(watcher, {0}),
    "limit the observer": lambda: resource.prlimit(watcher, resource.RLIMIT_FSIZE, (0, 0)),
    "make the observer wait for the disk": lambda: call(251, 1, watcher, 3 << 13),
    "change the observer's terminal group": lambda: os.setpgid(watcher, watcher),
}
WISHES = {
    "trace the observer": lambda: check(libc.ptrace(0x4206, watcher, 0, 0)),
    "write the observer's memory": lambda: open(f"/proc/{watcher}/mem", "r+b"),
    "read the observer's environment": lambda: open(f"/proc/{watcher}/environ").read(),
    "read the observer's memory": lambda: open(f"/proc/{watcher}/maps").read(),
    "take the observer's descriptor": lambda: call(438, os.pidfd_open(watcher), 0, 0),
    "read the observer's memory by call": lambda: read_memory(watcher),
    "see the observer": lambda: os.stat(f"/proc/{watcher}"),
    "list what the observer has open": lambda: os.listdir(f"/proc/{watcher}/fd"),
    "see init": lambda: open("/proc/1/status").read(),
    "leave the group": lambda: write_group("/cgroup.procs", "0"),
    "freeze the group": lambda: write_group(own_group() + "/cgroup.freeze", "0"),
    "make a group of its own": lambda: os.mkdir(control_groups() + own_group() + "/own"),
    "leave the group by a mount of its own": write_group_mounted_anew,
    "list bpf links": lambda: bpf(31, b""),
    "replace the programs that hold it": replace_programs,
    "detach the programs that hold it": detach_programs,
    "detach the links that hold it": detach_links,
    "pin the observer's maps": pin_maps,
    "watch the kernel": lambda: call(298, struct.pack("IIQ", 2, 128, 1).ljust(128, b"\0"), -1, 0, -1, 0),
    "mount over a denied path": lambda: check(libc.mount(b"none", b".git/hooks", b"tmpfs", 0, None)),
    "bind over a denied path": lambda: check(libc.mount(b".", b".git/hooks", None, 4096, None)),
    "remount it writable": lambda: check(libc.mount(None, b".git/hooks", None, 4096 | 32, None)),
    "make its mount writable": unhold,
    "unmount it": lambda: check(libc.umount2(b".git/hooks", 2)),
    "unmount it in a user namespace": in_user_namespace,
    "enter the host's mounts": lambda: check(libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), MOUNTS)),
    "enter the observer's mounts": lambda: enter_by_pidfd(watcher, MOUNTS),
    "enter the observer's groups": lambda: enter_by_pidfd(watcher, GROUPS),
    "change the root": lambda: os.chroot("/"),
    "load a module": module,
    "make a device": lambda: os.mknod("device", 0o600 | 0o060000, os.makedev(8, 0)),
    "read the denied file through init": lambda: open(f"/proc/1/root{os.getcwd()}/../secret").read(),
    "read the denied file by its handle": lambda: by_handle("../secret"),
    "write a hook": lambda: open(".git/hooks/pre-commit", "w"),
}
if sys.argv[1:] != ["observed"]:
    WISHES = {**RUINOUS, **WISHES}
for name, wish in WISHES.items():
    child = os.fork()
    if child == 0:
        try:
            wish()
            os._exit(0)
        except OSError:
            os._exit(1)
        except BaseException as error:
            print("BROKEN:", name, error, flush=True)
            os._exit(2)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        print("GRANTED:", name, flush=True)
print("tried", len(WISHES), flush=True)
open("after", "w").close()
