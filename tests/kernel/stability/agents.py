"""Does to files what coding agents do, in their ways: `agents.py WAY...`. The test states what each comes to.

Each way was seen in the traces of a real agent; what is drawn is drawn as the agent draws it. Nothing else is done.
"""

import ctypes
import os
import secrets
import shutil
import socket
import sqlite3
import string
import subprocess
import sys
import tempfile
import threading

HOME = os.environ["HOME"]
TMPDIR = os.environ["TMPDIR"]
STATE = HOME + "/.agent"
WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def in_another_thread(work):
    failures = []

    def guarded():
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def put(path, flags, text, mode=0o644):
    descriptor = os.open(path, os.O_WRONLY | flags, mode)
    os.write(descriptor, text)
    os.fsync(descriptor)
    os.close(descriptor)


def temporary(path):
    return f"{path}.tmp.{os.getpid()}.{secrets.token_hex(6)}"


def put_through_a_directory(folder, name, text):
    """The directory is held open for nothing, and all names go through its descriptor, in a thread of a pool."""
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    target = f"/proc/self/fd/{directory}/{name}"

    def write():
        beside = temporary(target)
        put(beside, os.O_CREAT | os.O_EXCL, text)
        os.chmod(beside, 0o644)
        os.rename(beside, target)

    in_another_thread(write)
    os.close(directory)


@way
def edit_through_a_directory():
    """Claude Code's edit of a file."""
    with open("project/edited", "rb") as file:
        text = file.read()
    put_through_a_directory("project", "edited", text.replace(b"old", b"new"))


@way
def make_through_a_directory():
    """Its file that was not there."""
    os.mkdir("project/made")
    put_through_a_directory("project/made", "a", b"new\n")


@way
def replace_and_keep_the_mode():
    """A drawn name, the mode of the original, a rename: editors, and agents in Go and Python."""
    descriptor, beside = tempfile.mkstemp(prefix=".replaced.", dir="project")
    os.write(descriptor, b"new\n")
    os.close(descriptor)
    shutil.copymode("project/replaced", beside)
    os.replace(beside, "project/replaced")


@way
def write_in_place():
    """OpenCode, aider: the file itself is cut and written."""
    put("project/in-place", os.O_CREAT | os.O_TRUNC, b"new\n")


@way
def own_settings():
    """Claude Code's own settings, under a name beside them, again and again."""
    for number in range(3):
        path = HOME + "/.agent.json"
        with open(path, "rb") as file:
            file.read()
        beside = temporary(path)
        put(beside, os.O_CREAT | os.O_TRUNC, b"%d\n" % number, 0o600)
        os.rename(beside, path)


@way
def a_shell_for_each_command():
    """Claude Code: each command in a shell of its own, which tells by a file where it ended."""
    for command in ["cat project/edited >/dev/null", "cd project", "echo made > project/by-shell", "true"]:
        told = f"{TMPDIR}/agent-{secrets.token_hex(2)}-cwd"
        subprocess.run(["/bin/bash", "-c", f"{command} && pwd -P >| {told}"], check=True)
        with open(told) as file:
            file.read()
        os.unlink(told)


@way
def a_socket_of_its_own():
    """Claude Code: a socket that is called by the process."""
    path = f"{TMPDIR}/agent-{os.getpid()}.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    client.close()
    server.close()
    os.unlink(path)


@way
def a_database():
    """Codex, OpenCode: sqlite with a log beside it."""
    os.makedirs(STATE)
    connection = sqlite3.connect(STATE + "/state.sqlite")
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t(a)")
    connection.execute("insert into t values(1)")
    connection.commit()
    connection.close()


@way
def itself_once_more():
    """Codex: the program starts itself by /proc/self/exe."""
    subprocess.run([sys.executable, "-SI", "-c", "pass"], executable="/proc/self/exe", check=True)


@way
def links_to_itself_on_the_path():
    """Codex: a directory of links to itself, in front of PATH, taken away at the end."""
    os.makedirs(STATE + "/tmp/arg0")
    folder = STATE + "/tmp/arg0/codex-arg0" + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(6))
    os.mkdir(folder, 0o700)
    lock = os.open(folder + "/.lock", os.O_RDWR | os.O_CREAT, 0o644)
    for name in ["apply_patch", "applypatch"]:
        os.symlink(os.path.realpath("/proc/self/exe"), f"{folder}/{name}")
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run(["/bin/sh", "-c", "apply_patch -SI -c pass"], env={**os.environ, "PATH": path}, check=True)
    for name in ["apply_patch", "applypatch", ".lock"]:
        os.unlink(f"{folder}/{name}")
    os.close(lock)
    os.rmdir(folder)


@way
def a_library_out_of_itself():
    """OpenCode: a library that it carries within is laid down under a drawn name, mapped, and left there."""
    with open("libagent.so", "rb") as file:
        library = file.read()
    for _ in range(2):
        path = f"{TMPDIR}/.{secrets.token_hex(8)}-00000000.so"
        put(path, os.O_CREAT | os.O_EXCL, library, 0o755)
        ctypes.CDLL(path)


@way
def git_beside_git():
    """OpenCode: questions to git beside each other, in no order, and a note in the repository's own directory."""
    questions = ["rev-parse --show-toplevel", "rev-list --max-parents=0 HEAD", "status --porcelain", "diff --name-only"]
    running = [
        subprocess.Popen(["git", *question.split()], cwd="project", stdout=subprocess.DEVNULL)
        for question in questions * 3
    ]
    for child in running:
        assert child.wait() == 0, child.args
    put("project/.git/agent", os.O_CREAT | os.O_TRUNC, b"known\n")


@way
def a_port_that_is_free():
    """aider: asks whether there is IPv6 by a bind."""
    probe = socket.socket(socket.AF_INET6)
    probe.bind(("::1", 0))
    probe.close()


for name in sys.argv[1:]:
    WAYS[name]()
