"""Tries every kind of access by every way of naming its target. Prints one line a cell: KIND WAY RESULT."""

import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
target_dir = sys.argv[1]
mine = sys.argv[2]  # a directory the command may do anything in


def check(result):
    if result < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
    return result


# How the target may be named: each takes a name in the target directory and gives (dir_fd or None, path).
def direct(name):
    return None, f"{target_dir}/{name}"


def dot_dot(name):
    return None, f"{mine}/../{os.path.relpath(target_dir, os.path.dirname(mine))}/{name}"


def link(name):
    path = f"{mine}/link-{name}"
    os.symlink(f"{target_dir}/{name}", path)
    return None, path


def linked_directory(name):
    path = f"{mine}/dir-{name}"
    os.symlink(target_dir, path)
    return None, f"{path}/{name}"


def by_descriptor(name):
    return os.open(target_dir, os.O_PATH), name


def through_proc(name):
    fd = os.open(target_dir, os.O_PATH)
    return None, f"/proc/self/fd/{fd}/{name}"


def through_root(name):
    return None, f"/proc/self/root{target_dir}/{name}"


def from_inside(name):
    os.chdir(target_dir)
    return None, name


def moved_parent(name):
    parent = f"{target_dir}-moved-{name}"
    os.rename(target_dir, parent)
    return None, f"{parent}/{name}"


def bind_mount(name):
    place = f"{mine}/bind-{name}"
    os.mkdir(place)
    check(libc.mount(target_dir.encode(), place.encode(), None, 4096, None))
    return None, f"{place}/{name}"


WAYS = [direct, dot_dot, link, linked_directory, by_descriptor, through_proc, through_root, from_inside, bind_mount, moved_parent]


# What may be done with it.
def read(fd, path):
    with open(os.open(path, os.O_RDONLY, dir_fd=fd)) as file:
        if not file.read():
            raise OSError(0, "nothing in it")


def append(fd, path):
    os.write(os.open(path, os.O_WRONLY | os.O_APPEND, dir_fd=fd), b"changed")


def open_truncate(fd, path):
    os.open(path, os.O_WRONLY | os.O_TRUNC, dir_fd=fd)


def truncate(fd, path):
    os.truncate(path if fd is None else f"/proc/self/fd/{fd}/{path}", 0)


def reopen(fd, path):
    held = os.open(path, os.O_PATH, dir_fd=fd)
    os.write(os.open(f"/proc/self/fd/{held}", os.O_WRONLY), b"changed")


def map_writable(fd, path):
    import mmap
    held = os.open(path, os.O_RDWR, dir_fd=fd)
    mmap.mmap(held, 1)[0:1] = b"X"


def openat2(fd, path):
    how = (ctypes.c_uint64 * 3)(os.O_WRONLY, 0, 0)
    held = check(libc.syscall(437, -100 if fd is None else fd, path.encode(), how, ctypes.sizeof(how)))
    os.write(held, b"changed")


def by_handle(fd, path):
    handle = ctypes.create_string_buffer(136)
    handle[0:4] = (128).to_bytes(4, "little")
    mount_id = ctypes.c_int()
    check(libc.name_to_handle_at(-100 if fd is None else fd, path.encode(), handle, ctypes.byref(mount_id), 0x400))
    place = os.open(mine, os.O_RDONLY | os.O_DIRECTORY)
    os.write(check(libc.open_by_handle_at(place, handle, os.O_WRONLY)), b"changed")


def create(fd, path):
    os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=fd)


def make_directory(fd, path):
    os.mkdir(path + ".dir", dir_fd=fd)


def make_fifo(fd, path):
    os.mkfifo(path + ".fifo", dir_fd=fd)


def make_link(fd, path):
    os.symlink("x", path + ".link", dir_fd=fd)


def remove(fd, path):
    os.unlink(path, dir_fd=fd)


def move_out(fd, path):
    os.rename(path, f"{mine}/out-{os.getpid()}", src_dir_fd=fd)


def move_onto(fd, path):
    source = f"{mine}/in-{os.getpid()}"
    open(source, "w").write("changed")
    os.rename(source, path, dst_dir_fd=fd)


def exchange(fd, path):
    source = f"{mine}/ex-{os.getpid()}"
    open(source, "w").write("changed")
    check(libc.renameat2(-100, source.encode(), -100 if fd is None else fd, path.encode(), 2))


def link_out(fd, path):
    copy = f"{mine}/hard-{os.getpid()}"
    os.link(path, copy, src_dir_fd=fd, follow_symlinks=True)
    open(copy, "a").write("changed")


def change_mode(fd, path):
    os.chmod(path, 0o777, dir_fd=fd)


def set_attribute(fd, path):
    os.setxattr(path if fd is None else f"/proc/self/fd/{fd}/{path}", "user.x", b"y")


KINDS = [read, append, open_truncate, truncate, reopen, map_writable, openat2, by_handle, create, make_directory, make_fifo,
         make_link, remove, move_out, move_onto, exchange, link_out, change_mode, set_attribute]

for way in WAYS:
    for kind in KINDS:
        name = f"{kind.__name__}-{way.__name__}"
        child = os.fork()
        if child == 0:
            try:
                fd, path = way(name)
                kind(fd, path)
                code = 0
            except OSError as error:
                code = error.errno or 255
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if way is moved_parent and os.path.exists(f"{target_dir}-moved-{name}"):
            os.rename(f"{target_dir}-moved-{name}", target_dir)
        print(kind.__name__, way.__name__, code, flush=True)
