#!/usr/bin/env python3
"""A second implementation of docs/formats/canonicalisation.md, written from that page alone.

usage: canonical.py EVIDENCE.json TRACE.ndjson USER:ID HOST COMMAND...

Makes the identity again from the trace, the roots and the folds that the evidence tells, and compares: command, every
effect in both directions, order, digest and run id; and which names fold, by which rules and to what (`folding.py`).
Prints what differs, and exits 1. What a trace does not tell (with which modes files were made, how else roots are spelt, the
run's control groups, where the caller sent the output) is in the file that TOLD names; without it that is not judged.
"""

import datetime
import hashlib
import itertools
import json
import os
import re
import sys

sys.dont_write_bytecode = True
from folding import Folder, unescaped

ROOT_ORDER = ["WORKDIR", "TMPDIR", "HOME", "CALLER_TMPDIR", "RUNTIME_DIR"]
FS_OPS = ["read", "list", "write", "create", "delete", "rename", "link", "symlink", "attr", "mount"]
NET_OPS = ["connect", "bind", "listen", "send"]
ADDRESSED = {"tcp", "udp", "unix", "icmp", "sctp", "mptcp", "udplite", "dccp", "raw"}
DELIMITERS = set("=:,;'\"`()[]{}<>@|&?#*!\\ \t\n\r\x0b\x0c")
FACTS = {"hits", "denied_by", "authorised", "addresses", "by", "peers", "refused"}
REFUSED = {"EACCES", "EPERM", "EROFS"}
UNDER_WAY = {"EINPROGRESS", "EALREADY", "EAGAIN", "EINTR", "E512", "E513", "E514", "E515", "E516", "ERESTARTSYS"}
PEER = {"ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNRESET", "ETIMEDOUT", "ECONNREFUSED", "EHOSTDOWN", "EHOSTUNREACH"}


def canonical(value):
    # The keys of this format are ASCII, where every order of characters is the same.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def is_escaped(char):
    code = ord(char)
    return (code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029, 0xFEFF, 0x200E, 0x200F)
            or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or 0xDC80 <= code <= 0xDCFF)


def escaped(text):
    """Bytes, as Python has them in its arguments, in the form of names."""
    out = []
    for at, char in enumerate(text):
        if char == "\\":
            out.append("\\\\")
        elif char == "$" and text[at + 1:at + 2] == "{":
            out.append("\\x24")
        elif is_escaped(char):
            out += [f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")]
        else:
            out.append(char)
    return "".join(out)


def plain(text):
    return re.sub(r"\$\{REDACTED:\d+\}", "${REDACTED}", text)


class Told:
    """What a trace does not tell, from the file of a program that knows: a word, and paths in hexadecimal digits, a line."""

    def __init__(self, path):
        self.private, self.outputs, self.aliases, self.groups = set(), set(), [], []
        with open(path, encoding="ascii") as file:
            for line in file:
                word, *rest = line.split()
                if word == "alias":
                    self.aliases.append((rest[0], plain_bytes(rest[1])))
                elif word == "group":
                    self.groups.append((plain_bytes(rest[0]), plain_bytes(rest[1])))
                else:
                    {"private": self.private, "output": self.outputs}[word].add(plain_bytes(rest[0]))


def plain_bytes(digits):
    return bytes.fromhex(digits).decode("latin-1")


class Run:
    def __init__(self, evidence, lines, user, host, command):
        user, user_id = user.split(":")
        self.lines = lines
        self.observed = evidence["observed"]
        roots = [(path, name) for name, path in self.observed["roots"].items()]
        # The longest root wins, ties in the order of the page.
        self.roots = sorted(roots, key=lambda root: (-len(root[0].encode()), ROOT_ORDER.index(root[1])))
        self.folds = {}
        for fold in self.observed["folded"]:
            self.folds.setdefault(plain(fold["from"]), []).append((fold["rule"].split("+"), plain(fold["to"])))
        self.effects = set()
        self.known = {}
        start = datetime.datetime.fromisoformat(self.observed["started_at"].replace("Z", "+00:00")).timestamp()
        clock = (int(start), int(start + self.observed["duration_ms"] / 1000) + 1)
        raw = [os.fsencode(word).decode("latin-1") for word in command]
        roots = [(unescaped(path), name) for path, name in self.roots]
        self.told = Told(os.environ["TOLD"]) if "TOLD" in os.environ else None
        self.not_judged = {"ephemeral-port"} if self.told else NOT_JUDGED
        self.folder = Folder(lines, self.observed["processes"], roots, raw, clock, user, host, self.result, self.told,
                             user_id)
        self.ports()

    # Names

    def rooted(self, path):
        for root, name in self.roots:
            if path == root or path.startswith(root + "/"):
                return "${" + name + "}" + path[len(root):]
        return path

    def path(self, line, key):
        """What a path is called, and, where it is a temporary name that became another, its own pattern."""
        text = plain(line.get(key, ""))
        state = line.get(key + "_state", "")
        if state in ("cut", "unreadable"):
            return "${" + state.upper() + "}" + text, None
        told = frozenset((frozenset(rules), to) for rules, to in self.folds.get(text, [])
                         if rules != ["itself"] and to != "${STDIO}")
        if any(rules & self.not_judged for rules, _ in told):
            return min(to for _, to in told), None
        outcomes = self.outcomes(self.folder.key(line, key))
        # Of the modes that the trace does not tell, those by which it folds as it did. (Where there are none, that is a
        # difference of its own.)
        _, name, own = next((one for one in outcomes if entries(*one) == told), outcomes[0])
        return (self.in_text(text) if name is None else name), own

    def outcomes(self, path):
        if path not in self.known:
            self.known[path] = self.folder.names(path)
        return self.known[path]

    def in_text(self, text, form=lambda text: text):
        """An argument: a root is replaced where an absolute path can begin and end; the rest is in this form."""
        out, at, word, has_slash, done = [], 0, 0, False, 0
        while at < len(text):
            hit = None
            if text[at] == "/":
                before = text[word:at]
                begins = before == "" or (before[0] == "-" and not has_slash) or (
                    before == "//" and text[:word].endswith("file:"))
                if begins:
                    for root, name in self.roots:
                        end = at + len(root)
                        if text.startswith(root, at) and (
                                end == len(text) or text[end] == "/" or text[end] in DELIMITERS):
                            hit = (end, name)
                            break
            if hit:
                out += [form(text[done:at]), "${" + hit[1] + "}"]
                has_slash = True
                at = done = hit[0]
                continue
            if text[at] in DELIMITERS:
                word, has_slash = at + 1, False
            elif text[at] == "/":
                has_slash = True
            at += 1
        return "".join(out + [form(text[done:])])

    # Ports

    def ports(self):
        self.chosen, self.bound, listened = set(), set(), set()
        for line in self.lines:
            if line.get("result") != "ok" or "port" not in line:
                continue
            key = (line["proto"], line["port"])
            if line["op"] == "bind":
                (self.chosen if line.get("ephemeral") else self.bound).add(key)
            elif line["op"] == "listen":
                listened.add(key)
        self.chosen |= listened - self.bound

    def port(self, line):
        port, op = line["port"], line["op"]
        key = (line["proto"], port)
        address = line["address"]
        local = address in ("0.0.0.0", "::", "::1") or address.startswith("127.")
        folded = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        if op == "bind" and (line.get("ephemeral") or port == 0):
            return "ephemeral"
        if op in ("bind", "listen") and key in self.chosen:
            return "ephemeral"
        if op in ("connect", "send") and key in self.chosen:
            return "ephemeral" if local else port
        # The answer of a datagram server: the range of the host's ports is not in the evidence, the fold is.
        if op == "send" and folded in self.folds:
            return "ephemeral"
        return port

    # Effects

    def result(self, line):
        result, op = line["result"], line["op"]
        if result == "ok":
            return "ok"
        if result in REFUSED:
            return "denied"
        if op == "connect" and (result in UNDER_WAY or result in PEER):
            return "ok"
        if op == "send" and result in PEER:
            return "ok"
        return None

    def add(self, kind, **effect):
        self.effects.add((kind, canonical({key: value for key, value in effect.items() if value is not None})))

    def fs(self, line, op, is_directory=False, key="path"):
        result = self.result(line)
        if result is None:
            return
        path, own = self.path(line, key)
        if own is not None and result == "denied":
            path, own = own, None
        if own is not None:
            # An act on a temporary name that became another.
            op = {"create": "create" if is_directory or line["op"] != "open" else "write",
                  "write": "write", "attr": "attr", "mount": "mount"}.get(op)
            if op is None:
                return
        slash = "/" if is_directory and not path.endswith("/") else ""
        self.add("fs", op=op, path=path + slash, result=result)

    def pair(self, line):
        result = self.result(line)
        if result is None:
            return
        op = line["op"]
        path, own = self.path(line, "path")
        if op == "symlink":
            text = plain(line["to"])
            told = {(frozenset(rules), to) for rules, to in self.folds.get(text, [])}
            outcomes = self.folder.link_text(self.folder.key(line, "path"), unescaped(line["to"]))
            to = next((name for rules, name in outcomes if rules and (rules, name) in told), None)
            if any(rules & self.not_judged for rules, _ in told):
                to = min(to for _, to in told)
            if to is not None:
                pass
            elif text.startswith("/"):
                slash = "/" if len(text) > 1 and text.endswith("/") else ""
                to = self.rooted(text.rstrip("/") or "/") + slash
            else:
                to = text
            self.add("fs", op=op, path=own if own and result == "denied" else path, to=to, result=result)
            return
        to, to_own = self.path(line, "to")
        if result == "denied":
            self.add("fs", op=op, path=own or path, to=to_own or to, result=result)
            return
        if own is not None:
            # The move itself is told by what the target became; one to elsewhere is told.
            life = self.folder.lives[self.folder.key(line, "path")]
            if life.moved == {self.folder.key(line, "to")}:
                if life.made == "file":
                    self.add("fs", op="write", path=path, result=result)
                return
        self.add("fs", op=op, path=path, to=to, result=result)
        if line.get("exchange"):
            self.add("fs", op=op, path=to, to=path, result=result)

    def net(self, line):
        op, proto = line["op"], line["proto"]
        if op == "socket":
            if proto in ("tcp", "udp", "unix") and self.result(line) != "denied":
                return
        result = self.result(line)
        if result is None:
            return
        if op == "socket" or proto not in ADDRESSED:
            self.add("net", op="connect", proto=proto, result=result)
            return
        address, port = None, None
        if "port" in line:
            address, port = line["address"], self.port(line)
        elif line.get("address_state") == "unreadable" and "address" not in line:
            address = "${UNREADABLE}"
        elif "address" in line and line["address"].startswith("@"):
            text = plain(line["address"])
            folds = [to for _, to in self.folds.get(text, [])]
            address = folds[0] if folds else "@" + self.in_text(text[1:])
        elif "address" in line:
            if op == "bind":
                self.fs(line, "create", key="address")
            address = self.path(line, "address")[0]
        self.add("net", op=op, proto=proto, address=address, port=port, result=result)

    def is_output(self, line):
        """Whether it is a write to where the caller sent the output."""
        if line["op"] != "write":
            return False
        if self.told:
            return self.folder.key(line, "path") in self.told.outputs
        return any(to == "${STDIO}" for _, to in self.folds.get(plain(line["path"]), []))

    def line(self, line):
        op = line["op"]
        if op in ("open", "recvmsg"):
            if line.get("path_only"):
                return
            access = line["access"]
            if "read" in access:
                self.fs(line, "read")
            if "create" in access:
                self.fs(line, "create")
            elif {"write", "truncate", "append"} & set(access):
                self.fs(line, "write")
        elif op == "write":
            if self.is_output(line):
                if self.result(line):
                    self.add("fs", op="write", path="${STDIO}", result=self.result(line))
            else:
                self.fs(line, "write")
        elif op == "truncate":
            self.fs(line, "write")
        elif op in ("unlink", "rmdir"):
            self.fs(line, "delete")
        elif op == "mkdir":
            self.fs(line, "create", is_directory=True)
        elif op == "mknod":
            self.fs(line, "create")
        elif op in ("chmod", "chown", "utimens", "setxattr", "removexattr"):
            self.fs(line, "attr")
        elif op in ("mount", "umount", "pivot_root", "move_mount"):
            self.fs(line, "mount")
        elif op in ("rename", "link", "symlink"):
            self.pair(line)
        elif op == "exec":
            result = self.result(line)
            if result is not None:
                self.add("exec", path=self.path(line, "path")[0], result=result)
            if result == "ok" and "interpreter" in line:
                self.add("exec", path=self.path(line, "interpreter")[0], result=result)
        elif op in ("connect", "bind", "listen", "send", "socket"):
            self.net(line)


def entries(rules, *names):
    """What `observed.folded` has of a path that is called so."""
    return frozenset((rules, name) for name in names if rules and name is not None)


def uses(run):
    """Of every path, text of a link and abstract name that has an effect: its text, what it may fold to, and what it is
    called where it does not fold."""
    bound = {line["address"] for line in run.lines if line["op"] in ("bind", "listen") and run.result(line)
             and line.get("address", "").startswith("@")}
    paths, texts = set(), set()
    for line in run.lines:
        op, result = line["op"], run.result(line)
        is_for_nothing = op == "open" and (line.get("path_only") or not set(line["access"]) - {"execute"})
        if result is None or is_for_nothing or op in ("chdir", "chroot", "unshare", "setns", "clone", "socket"):
            continue
        if run.is_output(line):
            yield plain(line["path"]), {entries(frozenset({"stdio"}), "${STDIO}")}, None
            continue
        keys = ["path", "interpreter"] if op == "exec" and result == "ok" else ["path"]
        keys += ["to"] if op in ("rename", "link") else []
        keys += ["address"] if line.get("proto") == "unix" and not line.get("address", "@").startswith("@") else []
        paths |= {(run.folder.key(line, key), line[key]) for key in keys
                  if key in line and line.get(key + "_state") not in ("cut", "unreadable")}
        if op == "symlink":
            texts.add((run.folder.key(line, "path"), line["to"]))
        elif line.get("address", "").startswith("@") and op in NET_OPS:
            texts.add((None, line["address"]))
    for path, text in paths:
        outcomes = run.outcomes(path)
        yield plain(text), {entries(rules, name, own) for rules, name, own in outcomes}, outcomes[0][1]
    for link, text in texts:
        raw = unescaped(text)
        outcomes = [run.folder.abstract(raw[1:], text in bound)] if link is None else run.folder.link_text(link, raw)
        yield plain(text), {entries(*outcome) for outcome in outcomes}, None


# Of these the trace alone tells nothing: which groups the run was in, how else a root is spelt, where the caller sent the
# output. Ports are computed with the effects.
ITSELF, NONE = frozenset({"itself"}), frozenset()
NOT_JUDGED = {"cgroup", "root-alias", "stdio", "ephemeral-port"}


def fold_differences(run):
    theirs = {}
    for fold in run.observed["folded"]:
        theirs.setdefault(plain(fold["from"]), set()).add((frozenset(fold["rule"].split("+")), plain(fold["to"])))
    led_to = {to for told in theirs.values() for rules, to in told if "itself" not in rules}
    ours, called = {}, {}
    for text, outcomes, name in uses(run):
        ours.setdefault(text, set()).add(frozenset(outcomes))
        if name is not None:
            called[text] = name
    found = []
    for text, told in sorted(theirs.items()):
        if text not in ours and not any(rules & run.not_judged for rules, _ in told):
            found.append(f"folds, and is no name of an effect: {text}")
    for text, uses_of_it in sorted(ours.items()):
        told = theirs.get(text, set())
        if any(rules & run.not_judged for rules, _ in told):
            continue
        # One text can be a path and the text of several links.
        choices = {frozenset().union(*choice) for choice in itertools.product(*uses_of_it)}
        choices = {choice or entries(ITSELF if called.get(text) in led_to else NONE, called.get(text)) for choice in choices}
        if frozenset(told) not in choices:
            found.append(f"{text} folds as {show(told)}, computed {' or '.join(sorted(map(show, choices)))}")
    return found


def show(entries):
    return ", ".join(sorted(f"{'+'.join(sorted(rules))}: {to}" for rules, to in entries)) or "nothing"


def order(kind, effect):
    ops = FS_OPS if kind == "fs" else NET_OPS
    rank = ops.index(effect["op"]) if "op" in effect else 0
    text = lambda key: effect.get(key, "").encode("utf-8")
    if kind == "net":
        is_use = effect["proto"] not in ADDRESSED
        return (rank if not is_use else len(NET_OPS), text("proto"), "host" in effect, text("host"))
    return (rank, text("path"), "to" in effect, text("to"), effect["result"] == "denied")


def differences(evidence, lines, user, host, command):
    found = []
    identity = evidence["identity"]
    digest = hashlib.sha256(canonical(identity)).hexdigest()
    if evidence["digest"] != "sha256:" + digest:
        found.append(f"digest is {evidence['digest']}, computed sha256:{digest}")
    if evidence["run_id"] != "sandbox_" + digest[:16]:
        found.append(f"run_id is {evidence['run_id']}")
    for kind, effects in identity["effects"].items():
        keys = [order(kind, effect) for effect in effects]
        if keys != sorted(keys) or len({canonical(effect) for effect in effects}) != len(effects):
            found.append(f"{kind} is not in order, or has an effect twice")
        bare = [{key: value for key, value in effect.items() if key not in FACTS}
                for effect in evidence["observed"]["effects"][kind]]
        if bare != effects:
            found.append(f"observed.effects.{kind} are others than the identity's")
    run = Run(evidence, lines[:-1], user, host, command)
    for line in run.lines:
        run.line(line)
    found += fold_differences(run)
    if command:
        words = [run.in_text(word, escaped) for word in command]
        # A secret may stand for anything.
        told = [".*".join(map(re.escape, plain(word).split("${REDACTED}"))) for word in identity["command"]]
        if len(words) != len(told) or not all(map(lambda told, word: re.fullmatch(told, word, re.S), told, words)):
            found.append(f"command is {identity['command']}, computed {words}")
    told = {(kind, canonical(json.loads(plain(json.dumps(effect)))))
            for kind, effects in identity["effects"].items() for effect in effects}
    # A line of the trace does not say whether what was opened is a directory.
    as_read = lambda effect: (effect[0], effect[1].replace(b'"op":"list"', b'"op":"read"'))
    ours = {as_read(effect) for effect in run.effects}
    theirs = {as_read(effect) for effect in told}
    found += [f"only in the identity: {kind} {text.decode()}" for kind, text in sorted(theirs - ours)]
    found += [f"only computed: {kind} {text.decode()}" for kind, text in sorted(ours - theirs)]
    return found


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        evidence = json.load(file)
    with open(sys.argv[2], encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    found = differences(evidence, lines, sys.argv[3], sys.argv[4], sys.argv[5:])
    for difference in found:
        print(difference)
    sys.exit(1 if found else 0)


main()
