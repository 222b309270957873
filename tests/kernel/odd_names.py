"""Makes files, directories, links and sockets by names of every kind that the page of the canonicaliser speaks of, and
near misses of them, in places of every kind; keeps, removes and moves them. The same names for the same SEED, but for the
process id, the time and the places.

usage: odd_names.py SEED TURNS DIRECTORY TOLD USER [WORD...]

DIRECTORY is one in /tmp. TOLD gets what a trace does not tell, a line each, paths in hexadecimal digits: which were made as
mkstemp and mkdtemp do, where the output goes, how else the home is spelt, and the control group with its mount.
"""

import os
import random
import socket
import sys
import time

seed, turns, outside, told, user = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6]
chance = random.Random(seed)
pid, started, here, tmp = os.getpid(), time.time(), os.getcwd(), os.environ["TMPDIR"]
host = socket.gethostname()
SMALL, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
HEX = DIGITS + "abcdef"


def drawn(alphabet, least, most=None):
    return "".join(chance.choice(alphabet) for _ in range(chance.randint(least, most or least)))


def now(form):
    return time.strftime(form, time.gmtime(started))


# What names are built of, and what is like that.
PIECES = [
    lambda: chance.choice(["rack", "row", "clip", "utf8", "1080p", "mb", "v1beta", "abc", "node", "llvm", "h264", "sda1", "dead"]),
    lambda: chance.choice(["Rack", "LLVM", "UTF8", "Display", "1080P", "Mb", "kEy", "Node", "SHA256"]),
    lambda: drawn(DIGITS, 1, 5),
    lambda: drawn(SMALL, 1, 3),
    lambda: drawn(SMALL + SMALL.upper(), 1, 2),
    lambda: chance.choice(["20190131", "000123", "20191331"]),
]
TOKENS = [
    lambda: chance.choice(["cache", "README", "CMakeLists", "HTTPServer", "fooBar", "worker", "cd", "lock", "update"]),
    lambda: chance.choice(["partial", "7zip", "x86", "log", "a8Kd92", "é", "\udcff", "0%d" % pid, "X" + host]),
    lambda: drawn(HEX, 2, 40),
    lambda: drawn(HEX.upper(), 6, 34),
    lambda: drawn(DIGITS, 1, 12),
    lambda: drawn(SMALL + DIGITS, 5, 16),
    lambda: drawn(SMALL + SMALL.upper() + DIGITS, 5, 12),
    lambda: drawn(SMALL + DIGITS + "_", 6, 10),
    lambda: drawn(SMALL, 5, 8),
    lambda: drawn("d0", 16, 32),
    lambda: chance.choice([str(pid), "a%db" % pid, str(os.getppid())]),
    lambda: chance.choice([user, host]),
    lambda: "-".join(drawn(HEX, many) for many in (8, 4, 4, 4, 12)),
    lambda: now(chance.choice(["%Y-%m-%d", "%Y%m%d-%H%M%S", "%Y%m%dT%H%M%SZ", "%Y-%m-%d_%H_%M_%S_123x", "2019-%m-%d"])),
    lambda: chance.choice(["%d", "%d123", "%d12", "up%d", "x%d-y"]) % started,
    lambda: now(chance.choice(["log%Y%m%d", "log%Y-%m-%d", "a%Y%m%db", "Log%Y%m%dT%H%M%SZ", "a1b%Y%m%d", "%Hh%Mm%Ss"])),
    lambda: "0x" + drawn(HEX, 4, 16),
    lambda: chance.choice(["1920x1080", "640x480x3", "cc1plus", "sha256file", "plus1234cc", "session4f3a9c"]),
    lambda: "".join(chance.choice(PIECES)() for _ in range(chance.randint(2, 4))),
    lambda: "".join(chance.choice(PIECES)() for _ in range(chance.randint(2, 4))),
    lambda: chance.choice(["FY2025Q1", "fy25h2", "FY225Q1", "1h30m15s", "30m1h", "5zxzvychyht", "3rdparty", "7zips"]),
    lambda: chance.choice(["00000012", "001234567", "20190131", "20190131235959", "20191331", "202601011200"]),
]
FORMS = [
    lambda: "tmp." + drawn(SMALL, 5, 13),
    lambda: "tmp" + drawn(SMALL + "_", 7, 9),
    lambda: "cc" + drawn(SMALL, 5, 7),
    lambda: "sed" + drawn(SMALL.upper(), 6),
    lambda: chance.choice(["sort", ".merge_file_"]) + drawn(SMALL, 5, 7),
    lambda: "go-build" + drawn(DIGITS, 1, 12),
    lambda: "pip-" + chance.choice(["", "a-b-", "-"]) + drawn(SMALL, 8),
    lambda: "etilqs_" + drawn(HEX, 14, 17),
    lambda: "s-" + drawn(SMALL, 9, 12) + "-" + drawn(SMALL, 5, 8),
    lambda: "a.b." + drawn(SMALL, 5, 8) + ".rcgu.o",
    lambda: "app.tmp" + drawn(HEX, 7),
    lambda: "main-" + drawn(HEX, 8) + ".o.tmp",
    lambda: "t" + drawn(SMALL + SMALL.upper(), 6),
    lambda: "of." + drawn(SMALL, 6),
    lambda: "st" + drawn(SMALL + DIGITS, 6),
    lambda: tmp.replace("/", "_") + "_x",
    lambda: here.replace("/", "-"),
    lambda: "%" + here.replace("/", "%") + "%f.swp",
    lambda: "pack-" + drawn(HEX, 40) + ".idx",
]


def name():
    if chance.random() < 0.3:
        text = chance.choice(FORMS)()
        return text + chance.choice(["", "", ".c", ".tar.gz", "-x", "." + chance.choice(TOKENS)()])
    text = chance.choice(TOKENS)()
    for _ in range(chance.choice([0, 0, 0, 1, 1, 2])):
        text += chance.choice("-_. +") + chance.choice(TOKENS)()
    return (text + chance.choice(["", "", ".log", ".tmp"]))[:200]


def write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644))


def mkstemp(path):
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    made_private.append(path)
    return handle


def make(path):
    """Whether it made a directory."""
    how = chance.choice(["write", "write", "mkstemp", "mkdir", "mkdtemp", "link", "bind"])
    if how == "write":
        write(path)
    elif how == "mkstemp":
        os.close(mkstemp(path))
    elif how in ("mkdir", "mkdtemp"):
        os.mkdir(path, 0o777 if how == "mkdir" else 0o700)
        if how == "mkdtemp":
            made_private.append(path)
        return True
    elif how == "link":
        os.symlink(chance.choice([name(), "/" + name(), here + "/x", "../" + name()]), path)
    elif len(os.fsencode(path)) < 100:
        socket.socket(socket.AF_UNIX).bind(path)
    else:
        write(path)
    return False


def end(path, is_directory, turn):
    fate = chance.choice(["stay", "stay", "delete", "delete", "move", "move", "derived", "again", "linked", "open"])
    if fate == "delete":
        (os.rmdir if is_directory else os.unlink)(path)
    elif fate == "move":
        os.rename(path, chance.choice(places) + "/" + name())
    elif fate == "derived":
        place, target = os.path.dirname(path), "target%d.txt" % turn
        beside = place + "/" + chance.choice([".", "", "a."]) + target + chance.choice([".", "-", ""]) + chance.choice(TOKENS)()
        write(beside)
        os.rename(beside, place + "/" + target)
        os.close(mkstemp(beside + "y"))
        os.rename(beside + "y", place + "/" + target)
    elif fate == "again":
        os.rename(path, path + ".a")
        os.rename(path + ".a", path + ".b")
    elif fate == "linked" and not is_directory:
        os.link(path, path + "-l")
        os.unlink(path)
    elif fate == "open" and not is_directory:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.unlink(path)
        os.close(os.open("/proc/self/fd/%d" % handle, os.O_RDONLY))
        os.close(handle)


made_private = []
# What is there before does not fold, and what cannot be made is refused.
places = [here, tmp, outside, tmp + "/pytest-of-x/pytest-0", "/sys/kernel"]
for place in ["r.git/objects/pack", "r.git/objects/ab", "objects/cd", "incremental", "tmp", "tmp_objdir-x", "d"]:
    places.append(here + "/" + place)
# By the day, one part of the date each, and what is like that.
for form in ["%Y/%m/%d", "%Y-%m/%d", "%Y%m/%d", "%Y/%m-%d", "%Y/%m%d", "%Y/%m", "2019/%m/%d", "v%Y/%m/%d", "%Y/%d"]:
    places += [here + "/days/" + now(form), outside + "/" + now(form)]
places += [here + "/days/%d/%d/%d" % time.gmtime(started)[:3], here + "/days/" + now("%Y/%m/%dx")]
for place in places:
    os.makedirs(place, exist_ok=True)
for number in range(pid - 1, pid + 2):
    write("part%d" % number)
for turn in range(turns):
    place = chance.choice(places)
    path = place + "/" + name()
    try:
        if chance.random() < 0.1:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        is_directory = make(path)
        if is_directory and chance.random() < 0.5:
            make(path + "/" + name())
            if chance.random() < 0.3:
                places.append(path)
        if chance.random() < 0.05:
            os.close(os.open(place, os.O_RDWR | os.O_TMPFILE))
        end(path, is_directory, turn)
    except OSError:
        # It was there, or could not be: that is a case as well.
        pass
    try:
        socket.socket(socket.AF_UNIX).bind("\0" + chance.choice([name()[:60], drawn(HEX, 5)]))
    except OSError:
        pass
lines = [("private", path) for path in made_private]
# Where the output goes, written and read as well.
output = os.readlink("/proc/self/fd/1")
if output.startswith("/"):
    lines.append(("output", output))
    os.write(1, b"x")
    os.close(os.open(output, os.O_RDONLY))
# The home by the name that the environment has for it, which is a link.
home = os.environ["HOME"]
if os.path.realpath(home) != home:
    lines.append(("alias HOME", home))
    for number, text in enumerate([home, home + "/", home + "/tmp.aB3xY9", home + "-not/x", "see:" + home + "/y"]):
        os.symlink(text, here + "/to-home-%d" % number)
# The run's group, that above it, and one beside it.
with open("/proc/self/mountinfo") as mounts:
    mounts = [line.split() for line in mounts]
mounts = [fields[4] for fields in mounts if fields[3] == "/" and fields[fields.index("-") + 1] == "cgroup2"]
with open("/proc/self/cgroup") as groups:
    group = next((line[3:].rstrip("\n") for line in groups if line.startswith("0::/")), None)
for mount in mounts if group else []:
    lines.append(("group " + os.fsencode(mount).hex(), mount + group))
    parts = group.split("/")[1:]
    for depth in range(len(parts) + 1):
        above = "/".join([mount] + parts[:depth])
        for name in ("cgroup.procs", "cgroup.controllers", "."):
            os.close(os.open(above + "/" + name, os.O_RDONLY))
        for beside in sorted(one.path for one in os.scandir(above) if one.is_dir())[:3]:
            try:
                os.close(os.open(beside + "/cgroup.procs", os.O_RDONLY))
            except OSError:
                pass
with open(told, "w") as out:
    out.writelines(what + " " + os.fsencode(path).hex() + "\n" for what, path in lines)
