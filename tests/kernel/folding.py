"""The folding rules of docs/formats/canonicalisation.md, written from that page alone.

From the lines of a trace, the roots, the command, the user's and the host's name: what each path is called, and by which
rules. The page's own table of temporary names is read, and the list of words that it names. What a trace does not tell is
told in `Folder.names`: with which mode a file was made.
"""

import itertools
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../docs/formats/canonicalisation.md")
WORDS = os.path.join(HERE, "../../assay/src/profile/words.txt")
PARTS = os.path.join(HERE, "../../assay/src/profile/parts.txt")
TEMPORARY = ("TMPDIR", "CALLER_TMPDIR", "RUNTIME_DIR")
USER_PLACES = ("/run/user", "/var/mail", "/var/spool/mail", "/var/spool/cron", "/run/sudo", "/run/lock")
ADDED = {"partial", "download", "crdownload", "backup", "swapfile", "update", "updated", "unfinished", "incomplete",
         "staging", "staged", "pending"}
DRAWERS = {"st": ("strip", "objcopy", "ar", "ranlib"), "zi": ("zip", "zipcloak", "zipnote", "zipsplit")}
MARKS = {"-", "_", "."}
PART = "[A-Za-z0-9_]"
MOST_MOVES = 8
DAY = 86_400


def forms():
    """The page's table of temporary names."""
    with open(PAGE, encoding="utf-8") as page:
        section = page.read().split("\n### Forms of temporary names\n")[1].split("\n### ")[0]
    found = []
    for row in re.findall(r"^\| `(.*?)`(.*?) \| `(.*?)` \| (.*?) \| (yes|no) \|$", section, re.M):
        prefix, is_open, alphabet, many, extends = row
        least, _, most = many.partition(" to ")
        run = f"[{alphabet}]{{{least},{most or least}}}"
        before = re.escape(prefix) + ("(?:.*-)" if is_open else "")
        # So many and no more.
        after = rf"(?![{alphabet}])" + (r"(?=\.|\Z)" if extends == "yes" else r"\Z")
        found.append((re.compile(before + "(" + run + ")" + after, re.S), bool(is_open)))
    assert len(found) >= 30, "the page has lost its table"
    return found


def unescaped(text):
    """A name's text form as bytes, one character each."""
    raw = re.sub(r"\\(\\|x([0-9a-f]{2}))", lambda found: "\\" if found[1] == "\\" else "\udc00" + found[2], text)
    out = bytearray()
    for at, piece in enumerate(re.split("\udc00", raw)):
        out += bytes.fromhex(piece[:2]) + piece[2:].encode() if at else piece.encode()
    return out.decode("latin-1")


def escaped(raw):
    text = raw.encode("latin-1").decode("utf-8", "surrogateescape")
    out = []
    for at, char in enumerate(text):
        code = ord(char)
        is_hidden = (code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029, 0xFEFF, 0x200E, 0x200F)
                     or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or 0xDC80 <= code <= 0xDCFF)
        if char == "\\":
            out.append("\\\\")
        elif char == "$" and text[at + 1:at + 2] == "{":
            out.append("\\x24")
        elif is_hidden:
            out += [f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape")]
        else:
            out.append(char)
    return "".join(out)


def is_alnum(char):
    return char.isascii() and char.isalnum()


def is_beneath(path, directory):
    return path == directory or path.startswith(directory + "/")


def above(path):
    return path[:path.rfind("/")] if "/" in path else ""


def is_chance(text):
    return len(set(text)) >= 5


def is_word(letters):
    if re.fullmatch("[a-z]+|[A-Z]+", letters):
        return True
    words = re.findall("[A-Za-z][a-z]*", letters)
    if "".join(words) != letters:
        return False
    least = 3
    while words and len(words[0]) == 1:
        least = 4
        words.pop(0)
    return bool(words) and all(len(word) >= least for word in words)


def is_like_a_word(token):
    found = re.fullmatch("([A-Za-z]*)([0-9]*)", token)
    if found and (not found[1] or (is_word(found[1]) and len(found[2]) <= 4)):
        return True
    found = re.fullmatch("[0-9]{1,2}([A-Za-z]+)", token)
    if found and len(token) <= 5 and is_word(found[1]):
        return True
    if re.fullmatch("[0-9]{1,5}x[0-9]{1,5}", token):
        return True
    year = "(([FC]Y)?(19|20)[0-9]{2}|[FC]Y[0-9]{2})[QHW][0-9]{1,2}"
    if re.fullmatch(year + "|S[0-9]{1,2}E[0-9]{1,3}", token, re.I):
        return True
    if not re.fullmatch("([0-9]{2}[hms])*", token) and re.fullmatch("(?=(?:[0-9]+[a-z]){2})" + "".join("([0-9]{1,3}%s)?" % unit for unit in "dhms"), token):
        return True
    return WORDS_KNOWN.is_built(token)


def is_chosen_number(digits):
    zeros = len(digits) - len(digits.lstrip("0"))
    if zeros * 2 >= len(digits):
        return True
    day = "(19[7-9][0-9]|20[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])"
    return bool(re.fullmatch(day + "(([01][0-9]|2[0-3])[0-5][0-9]([0-5][0-9])?)?", digits))


def is_hexadecimal_hash(token):
    return bool(re.fullmatch("[0-9a-f]{16,128}|[0-9A-F]{16,128}", token)) and is_chance(token) and bool(
        re.search("[0-9]", token)) and bool(re.search("[A-Fa-f]", token))


def is_hash(token, words):
    if is_hexadecimal_hash(token):
        return True
    if not re.fullmatch("[0-9a-z]{13,128}", token) or not is_chance(token):
        return False
    changes = sum(1 for a, b in zip(token, token[1:]) if a.isdigit() != b.isdigit())
    named = words.within(token)
    return (named < 2 if changes >= 3 else changes == 2 and len(token) >= 20 and not named) and not words.is_built(token)


def stands_in(text, name):
    """Whether the name is a word of its own in the text."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (at and is_alnum(text[at - 1]) and is_alnum(name[0])) and not (
                end < len(text) and is_alnum(text[end]) and is_alnum(name[-1])):
            return True
        at = text.find(name, at + 1)
    return False


class Words:
    def __init__(self):
        with open(WORDS, encoding="ascii") as words:
            self.known = set(words.read().split())
        with open(PARTS, encoding="ascii") as parts:
            self.listed = self.known | set(parts.read().split())
        self.longest = max(map(len, self.known))

    def is_of_words(self, name):
        letters = name.rstrip("0123456789")
        digits = len(name) - len(letters)
        if digits and letters.endswith("_"):
            letters = letters[:-1]
        parts = letters.split("_")
        joined = [self.is_joined(part) for part in parts]
        return digits <= 3 and any(joined) and all(
            is_joined or re.fullmatch("[a-z]{1,2}", part) for part, is_joined in zip(parts, joined))

    def is_built(self, token):
        """Whether it can be cut into pieces that count enough: by trying every way, from the end."""
        per, less = (6, 14) if re.search("[a-z]", token) and re.search("[A-Z]", token) else (5, 12)
        is_hexadecimal = bool(re.fullmatch("[0-9A-Fa-f]*", token))
        known = {}

        def best(at, before):
            """The most that what begins here counts, behind these pieces that are not listed."""
            if at == len(token):
                return 0
            if (at, before) in known:
                return known[at, before]
            counts = []
            for end in range(at + 2, min(len(token), at + 16) + 1):
                piece = token[at:end]
                if piece.lower() in self.listed and re.fullmatch("[A-Za-z0-9][a-z0-9]*|[A-Z0-9]*", piece):
                    counts.append(per * len(piece) - less + best(end, ""))
            number = re.match("[0-9]*", token[at:])[0]
            if number and len(before) < 2 and before[-1:] != "N":
                if len(number) <= 4:
                    counts.append((0 if is_hexadecimal else len(number) - 1) + best(at + len(number), before + "N"))
                elif is_chosen_number(number) and (
                        number.startswith("00") or re.fullmatch("[A-Za-z]*" + number, token)):
                    counts.append(8 + best(at + len(number), before + "N"))
            for piece in {token[at:at + 1], token[at:at + 2]}:
                if len(before) < 2 and before[-1:] != "L" and re.fullmatch("[A-Z]+|[A-Za-z][a-z]*", piece):
                    counts.append(-1 + best(at + len(piece), before + "L"))
            known[at, before] = max(counts, default=-1000)
            return known[at, before]

        return best(0, "") >= 6

    def within(self, token):
        return sum(self.is_joined(row) for row in re.findall("[A-Za-z]{3,}", token))

    def is_joined(self, letters):
        ends = {0}
        for end in range(3, len(letters) + 1):
            for start in range(max(0, end - self.longest), end - 2):
                word = letters[start:end]
                if start in ends and word.lower() in self.known and re.fullmatch("[A-Za-z][a-z]+", word):
                    ends.add(end)
                    break
        return bool(letters) and len(letters) in ends


WORDS_KNOWN = Words()


class Life:
    """What the record proves of one path."""

    def __init__(self):
        self.made = None
        self.was_there = False
        self.is_alive = True
        self.is_refused = False
        self.may_be_private = False
        self.drawers = set()
        self.moved = set()
        self.linked = set()
        self.makers = []

    def add_makers(self, line):
        for one in (line["pid"], line["tid"]):
            if one not in self.makers and len(self.makers) < 4:
                self.makers.append(one)

    def used(self):
        self.was_there |= self.made is None

    def make(self, how, line):
        if self.made is None and not self.was_there:
            self.made = how
        self.is_alive = True
        self.add_makers(line)

    def refuse(self, line):
        self.is_refused = True
        self.add_makers(line)

    @property
    def is_only_refused(self):
        return self.is_refused and not self.was_there and self.made is None


class Place:
    def __init__(self, text="", rules=(), made=False, gone=False, temp=False, git=False, own=None):
        self.text, self.rules, self.own = text, set(rules), own
        self.made, self.gone, self.temp, self.git = made, gone, temp, git


class Folder:
    """`result` says of a line whether it is done (`ok`), `denied`, or neither; `told` is what a trace does not tell, where
    that is known: which paths were made as mkstemp and mkdtemp do, other spellings of roots, groups and their mounts."""

    def __init__(self, lines, processes, roots, command, clock, user, hostname, result, told=None, user_id=None):
        private = told and told.private
        self.roots = [(path, name, frozenset()) for path, name in roots]
        if told:
            self.roots += [(path, name, frozenset({"root-alias"})) for name, path in told.aliases]
            for mount, group in told.groups:
                self.roots.append((group, "CGROUP", frozenset({"cgroup"})))
                while len(above(group)) > len(mount):
                    group = above(group)
                    self.roots.append((group, "CGROUP_PARENT", frozenset({"cgroup"})))
        # The longest first; of two that are one, the one that is no other spelling.
        self.roots.sort(key=lambda root: -len(root[0]))
        self.command = command
        self.clock, self.user, self.hostname = clock, user, hostname
        self.user_id = user_id
        self.private = private
        self.forms, self.words = forms(), Words()
        self.lives, self.mounts, self.programs, self.templates = {}, [], {}, set()
        self.process_of, self.parent = {}, {}
        for process in processes:
            self.process_of[process["pid"]] = process["pid"]
            self.parent[process["pid"]] = process["ppid"]
        for line in lines:
            self.process_of[line["tid"]] = line["pid"]
            self.process_of.setdefault(line["pid"], line["pid"])
            self.parent.setdefault(line["pid"], line["ppid"])
        for argument in command:
            self.learn_template(argument)
        for line in lines:
            self.see(line, result(line))
        self.spread = set()
        for path in self.lives:
            self.find_spread(path)
        self.dated = set()
        for path, life in self.lives.items():
            if life.made:
                self.find_dates(path)
        self.counting = self.find_counting(self.is_maker, lambda life: life.made or life.is_refused)
        self.counting_like_user = self.find_counting(
            lambda _, digits: digits == self.user_id, lambda life: life.made or life.is_refused or life.was_there)
        self.alike = self.find_alike()
        self.choice, self.asked = {}, set()

    # What the trace tells

    def life(self, path):
        return self.lives.setdefault(path, Life())

    def learn_template(self, argument):
        name = argument.split("/")[-1]
        found = re.fullmatch("(.*?)(X{3,})((?:(?!XXX).)*)", name, re.S)
        if found:
            before = found[1].split("=")[-1]
            if not re.search(r"[ \t\n\x0c\r]", before + found[3]) and max(len(before), len(found[3])) <= 200:
                self.templates.add((before, len(found[2]), found[3]))

    def was_told(self, line, name):
        argv = self.programs.get(line["pid"], (None, []))[1]
        return any(stands_in(argument, name) for argument in argv)

    def program(self, pid):
        for _ in range(64):
            if pid in self.programs:
                return self.programs[pid][0]
            pid = self.parent.get(pid, 0)
        return ""

    def see(self, line, result):
        op = line["op"]
        if op == "exec":
            for argument in line.get("argv", []):
                self.learn_template(unescaped(argument))
            if line["result"] == "ok":
                argv = [unescaped(argument) for argument in line.get("argv", [])]
                self.programs[line["pid"]] = (unescaped(line["path"]), argv)
        if result is None:
            return
        is_done = result == "ok"
        path = self.key(line, "path")
        if op in ("open", "recvmsg"):
            if line.get("path_only"):
                return
            access = line["access"]
            writes = {"create", "write", "truncate", "append"} & set(access)
            if not is_done:
                if writes:
                    self.life(path).refuse(line)
            elif "create" in access:
                self.make(path, "file", line, "read" in access)
            elif writes or "read" in access:
                self.life(path).used()
        elif op in ("unlink", "rmdir"):
            life = self.life(path)
            if not is_done:
                life.refuse(line)
                return
            life.used()
            life.is_alive = False
            life.moved |= life.linked
        elif op in ("mkdir", "mknod"):
            if is_done:
                self.make(path, "directory" if op == "mkdir" else "file", line, op == "mkdir")
            else:
                self.life(path).refuse(line)
        elif op in ("write", "truncate", "chmod", "chown", "utimens", "setxattr", "removexattr"):
            self.life(path).used() if is_done else self.life(path).refuse(line)
        elif op in ("mount", "umount", "pivot_root", "move_mount"):
            self.life(path)
            if is_done:
                self.life(path).used()
                self.mounts.append(path)
        elif op == "exec":
            for one in (path, self.key(line, "interpreter")):
                if one is not None and is_done:
                    self.life(one).used()
        elif op == "symlink":
            self.make(path, "other", line, False) if is_done else self.life(path).refuse(line)
        elif op in ("rename", "link"):
            self.pair(line, path, self.key(line, "to"), is_done)
        elif op in ("connect", "bind", "listen", "send") and line.get("proto") == "unix" and "address" in line:
            if line["address"].startswith("@"):
                return
            path = self.key(line, "address")
            if op == "bind":
                self.make(path, "file", line, False) if is_done else self.life(path).refuse(line)
            elif is_done:
                self.life(path).used()

    def pair(self, line, path, to, is_done):
        source, target = self.life(path), self.life(to)
        if not is_done:
            target.refuse(line)
        elif line.get("exchange"):
            source.used()
            target.used()
        elif line["op"] == "link":
            source.used()
            target.make("other", line)
            source.linked.add(to)
        else:
            source.used()
            if self.is_made_here(path):
                target.make("other", line)
            else:
                target.used()
                target.is_alive = True
            source.is_alive = False
            source.moved.add(to)

    def is_made_here(self, path):
        while path:
            if path in self.lives and self.lives[path].made:
                return True
            path = above(path)
        return False

    @staticmethod
    def key(line, name):
        """A path of a line; what has no place in the tree is kept apart."""
        if name not in line:
            return None
        state = line.get(name + "_state", "")
        apart = "" if state in ("", "looked-up-late", "unverified", "lexical") else state + "\0"
        return apart + unescaped(line[name])

    def make(self, path, how, line, may_be_private):
        life = self.life(path)
        life.make(how, line)
        name = path.split("/")[-1]
        if may_be_private and not self.was_told(line, name):
            life.may_be_private = True
            life.drawers.add(self.program(line["pid"]).split("/")[-1])

    def find_spread(self, path):
        parts = path.split("/")
        for at, name in enumerate(parts):
            digits = re.match("[0-9A-Fa-f]*", name)[0]
            if len(digits) < 28 or not is_hash(digits, self.words) or (len(digits) < len(name) and is_alnum(name[len(digits)])):
                continue
            while at > 0 and re.fullmatch("[0-9A-Fa-f]{1,2}", parts[at - 1]):
                self.spread.add("/".join(parts[:at]))
                at -= 1

    def find_dates(self, path):
        """Two or three components that spell a day near the run from year to day, however they are cut."""
        parts = path.split("/")
        for at in range(1, len(parts)):
            for count in (2, 3):
                here = parts[at:at + count]
                found = re.fullmatch(r"([0-9]{4})([-_./]?)([0-9]{1,2})([-_./]?)([0-9]{1,2})", "/".join(here))
                if not found or len(here) < count or found[0].count("/") != count - 1:
                    continue
                # Without a sign between them month and day have two digits.
                if (not found[2] and len(found[3]) != 2) or (not found[4] and len(found[3] + found[5]) != 4):
                    continue
                is_named = all(any(stands_in(argument, name) for argument in self.command) for name in here)
                if self.is_near(int(found[1]), int(found[3]), int(found[5])) and not is_named:
                    self.dated |= {"/".join(parts[:at + 1 + more]) for more in range(count)}

    # Ids

    def is_related(self, number, makers):
        if number not in self.process_of:
            return False
        for maker in makers:
            process = self.process_of.get(maker, maker)
            one = process
            for _ in range(64):
                if number in (maker, one):
                    return True
                if one == 0:
                    break
                one = self.parent.get(one, 0)
            if self.parent.get(self.process_of[number], 0) == process:
                return True
        return False

    @staticmethod
    def as_id(digits):
        return int(digits) if len(digits) <= 10 and digits[0] != "0" else None

    def is_maker(self, path, digits):
        number = self.as_id(digits)
        return number is not None and path in self.lives and self.is_related(number, self.lives[path].makers)

    def find_counting(self, is_id, is_among):
        """Where in the last name of a path a number counts, though it is an id."""
        patterns = {}
        for path, life in self.lives.items():
            if not is_among(life):
                continue
            plain = path.rstrip("/")
            name = plain.split("/")[-1]
            for found in re.finditer("[0-9]+", name):
                pattern = (above(plain), name[:found.start()], name[found.end():])
                ids, others = patterns.setdefault(pattern, ([], set()))
                if is_id(path, found[0]):
                    ids.append((path, found.start()))
                else:
                    others.add(found[0])
        return {place for ids, others in patterns.values() if len(others) >= 2 for place in ids}

    def find_alike(self):
        """Where characters stand that were drawn for a file, as it or others that are called so show."""
        patterns = {}
        for path, life in self.lives.items():
            name = path.split("/")[-1]
            found = [one for one in re.finditer("[A-Za-z0-9]+", name) if self.may_be_drawn(name, one)]
            if life.made == "file" and len(found) == 1:
                start, end = found[0].span()
                pattern = (above(path), name[:start], name[end:], end - start)
                patterns.setdefault(pattern, []).append((path, name[start:end]))
        places = {}
        for (_, before, _, length), members in patterns.items():
            if length >= 8:
                mixed = sum(not is_like_a_word(token) for _, token in members)
                is_drawn = len(members) > 1 and mixed * 2 >= len(members)
            else:
                values = {int(digits, 16) for _, digits in members}
                counts = sum(value + 1 in values for value in values) * 2 >= len(values)
                shown = [digits for _, digits in members if not digits.startswith("00")]
                is_of_both = any(re.fullmatch("[0-9]+", one) for one in shown) and any(
                    re.search("[0-9]", one) and re.search("[a-f]", one) for one in shown)
                is_drawn = not counts and (is_of_both or any(self.shows(digits) for _, digits in members))
            for path, token in members:
                if is_drawn and not (length >= 8 and self.words.is_of_words(token)):
                    places[path] = (len(before), len(before) + length)
        return places

    @staticmethod
    def may_be_drawn(name, found):
        is_inside = name[:found.start()][-1:] in MARKS and name[found.end():][:1] in MARKS
        is_short = is_inside and re.fullmatch("[0-9a-f]{4,5}", found[0])
        return is_short or (len(found[0]) >= 8 and not found[0].isdigit())

    def shows(self, digits):
        is_mixed = re.search("[a-f]", digits) and not re.fullmatch("[a-f]*[0-9]*", digits)
        return is_mixed and not digits.startswith("00")

    # Paths

    def names(self, path):
        """All that a path may be called, as (rules, text, own pattern): with every mode its parts may have been made."""
        self.choice, self.asked = {}, set()
        first = self.told(path)
        asked = sorted(self.asked)[:6]
        outcomes = [first]
        for bits in itertools.product([False, True], repeat=len(asked)):
            self.choice = dict(zip(asked, bits))
            outcomes.append(self.told(path))
        self.choice = {}
        return outcomes

    def told(self, path):
        state, _, rest = path.rpartition("\0")
        if state == "nameless":
            return self.nameless(rest)
        place = self.place(path)
        return frozenset(place.rules), place.text or "/", place.own

    def nameless(self, text):
        for end, before, slash in ((" (deleted)", "deleted:", ""), ("/#unnamed", "unnamed:", "/")):
            if text.startswith("/") and text.endswith(end):
                place = self.place(text[:-len(end)])
                name = place.own or place.text or "/"
                return frozenset(place.rules | {"nameless"}), before + name + ("" if name == "/" else slash), None
        found = re.fullmatch(r"([^\[]*)\[[0-9]*\]", text)
        if found:
            return frozenset({"nameless"}), escaped(found[1]), None
        return frozenset(), None, None

    def place(self, path, moves=MOST_MOVES):
        path = path.rstrip("/")
        place, end = self.begin(path, moves)
        names = path[end:].lstrip("/").split("/") if path[end:].strip("/") else []
        walked = path[:end]
        for name in names:
            walked += "/" + name
            place = self.step(place, walked, name, moves)
        return place

    def split(self, path):
        for root, name, rules in self.roots:
            # Of a group above the run's, itself and its own files.
            if is_beneath(path, root) and (name != "CGROUP_PARENT" or "/" not in path[len(root) + 1:]):
                return name, len(root), rules
        return None

    def begin(self, path, moves):
        rooted = self.split(path)
        if rooted is None and moves:
            for mount in sorted(set(self.mounts), key=len, reverse=True):
                beneath = mount != "/" and path.startswith(mount + "/") and self.split(path[len(mount):])
                if beneath:
                    place = self.place(mount, moves)
                    name, length, _ = beneath
                    return Place(f"{place.text}${{{name}}}", place.rules | {"mounted-root"}, place.made,
                                 place.gone or name == "TMPDIR", place.temp or name in TEMPORARY,
                                 place.git), len(mount) + length
        found = re.match(r"/proc/(self|thread-self|[0-9]+)(?=/|\Z)", path)
        if found:
            text, end = "/proc/" + self.task(found[1]), found.end()
            deeper = re.compile(r"/task/(self|thread-self|[0-9]+)(?=/|\Z)").match(path, end)
            if deeper:
                text += "/task/" + self.task(deeper[1]).replace("PID", "TID")
                end = deeper.end()
            deeper = None if deeper else re.compile(r"/map_files/[^/]+").match(path, end)
            if deeper:
                text, end = text + "/map_files/${ADDRESS}", deeper.end()
            return Place(text, {"proc-pid"}), end
        if re.fullmatch("/dev/pts/[0-9]+", path):
            return Place("/dev/pts/${PTS}", {"terminal"}), len(path)
        if rooted:
            name, length, rules = rooted
            return Place(f"${{{name}}}", rules, gone=name == "TMPDIR", temp=name in TEMPORARY), length
        for directory in ("/tmp", "/var/tmp", "/dev/shm"):
            if is_beneath(path, directory):
                return Place(directory, temp=True), len(directory)
        return Place(), 0

    def task(self, name):
        is_ours = not name.isdigit() or int(name) in self.process_of
        return "${PID}" if is_ours else "${OTHER_PID}"

    def step(self, place, path, name, moves):
        life = self.lives.get(path)
        is_made_itself = bool(life and life.made)
        is_only_refused = bool(life and life.is_only_refused)
        made = place.made or is_made_itself
        gone = place.gone or bool(life and not life.is_alive)
        proof = Proof(self, place, path, life, made or is_only_refused, gone or is_only_refused)
        target = None
        if is_made_itself and not life.is_alive and len(life.moved) == 1:
            target = next(iter(life.moved))
        is_dated = path in self.dated
        folded = (["time"], "${TIME}") if is_dated else self.place_name(name)
        if folded is None and not place.text.startswith("/proc/${"):
            folded = self.component(name, proof)
        if folded is None:
            folded = self.stored(path, name, place, made)
        if folded is None and target is not None:
            folded = self.derived(name, target.split("/")[-1])
        # A secret stays what it is.
        is_spread = folded is not None and len(name) <= 2 and folded[1] == "${HASH}"
        is_named = any(stands_in(argument, name) for argument in self.command)
        if (is_named and not is_spread and not is_dated) or "${REDACTED" in name:
            folded = None
        below = Place(place.text + "/", place.rules, made, gone, place.temp, place.git or name.endswith(".git"))
        if folded is None:
            below.text += name if "${REDACTED" in name else escaped(name)
            return below
        rules, text = folded
        below.text += text
        below.rules |= set(rules)
        if target is not None and moves:
            to = self.place(target, moves - 1)
            below.own, below.text = below.text, to.text
            below.rules |= to.rules | {"temp-rename"}
        return below

    # Components

    def place_name(self, name):
        found = re.match(r"([^A-Za-z0-9]*)([-_%!+.:=])(?=[A-Za-z0-9])", name)
        if not found or len(found[0]) != len(re.match("[^A-Za-z0-9]*", name)[0]):
            return None
        sign, start = found[2], found.end(2) - 1
        for root, variable, rules in self.roots:
            if "cgroup" in rules:
                continue
            written = name[start:start + len(root)]
            end = start + len(root)
            is_it = root.count("/") > 1 and len(written) == len(root) and all(
                one == sign if byte == "/" else one == byte or (not is_alnum(byte) and one == sign)
                for one, byte in zip(written, root))
            if is_it and not (end < len(name) and is_alnum(name[end])):
                return ["place-name"], escaped(name[:start]) + f"${{{variable}_NAME}}" + escaped(name[end:])
        return None

    def component(self, name, proof):
        if proof.made:
            for before, length, after in sorted(self.templates):
                middle = name[len(before):len(name) - len(after)]
                if name.startswith(before) and name.endswith(after) and len(name) == len(
                        before) + length + len(after) and re.fullmatch("[A-Za-z0-9]+", middle) and (
                            proof.private or not self.words.is_of_words(middle)):
                    # What stands around them was given, but for what a shell put there.
                    proof.gone = proof.temp = False
                    return self.around(name, (len(before), len(before) + length), "template", proof)
            part = self.form(name, proof)
            if part:
                return self.around(name, part, "temp-name", proof)
            if self.is_random_whole(name, proof) and not self.is_told_otherwise(name, proof):
                return ["random"], "${RANDOM}"
            part = self.drawn(name, proof)
            if part and not self.is_told_otherwise(name, proof):
                return self.around(name, part, "random", proof)
            if proof.gone and proof.temp and proof.path in self.alike:
                return self.around(name, self.alike[proof.path], "random", proof)
        pieces = self.tokens(name, 0, len(name), proof)
        return self.finish(name, pieces)

    @staticmethod
    def finish(name, pieces):
        """Pieces are (start, end, variable, rule)."""
        if not pieces:
            return None
        out, at = [], 0
        for start, end, variable, _ in pieces:
            out += [escaped(name[at:start]), variable]
            at = end
        return [rule for *_, rule in pieces], "".join(out) + escaped(name[at:])

    def around(self, name, part, rule, proof):
        start, end = part
        pieces = []
        if start and not is_alnum(name[start - 1]):
            pieces = self.tokens(name[:start], 0, start, proof)
        pieces.append((start, end, "${RANDOM}", rule))
        return self.finish(name, pieces + self.tokens(name, end, len(name), proof))

    def is_drawn_form(self, part, proof):
        return proof.private or ((proof.gone or proof.temp) and not self.words.is_of_words(part.strip("_")))

    def form(self, name, proof):
        for pattern, is_open in self.forms:
            found = pattern.match(name)
            # Of an open one the part begins behind the last dash.
            if found and not (is_open and "-" in name[found.start(1):]) and self.is_drawn_form(found[1], proof):
                return found.span(1)
        found = re.match(r"s-([a-z0-9]{9,12}-[a-z0-9]{5,8})(?=[.-]|\Z)", name)
        if found:
            return found.span(1)
        found = re.fullmatch(r".*\.([A-Za-z0-9]{5,8})\.rcgu\.o", name, re.S)
        if found:
            return found.span(1)
        found = re.fullmatch(r".+(tmp[0-9a-f]{7})", name, re.S)
        if found and name[found.start(1) - 1] == "." and proof.gone:
            return found.span(1)
        found = re.fullmatch(r".+-([0-9a-f]{8})(?:\.[^-]*)?\.tmp", name, re.S)
        if found and proof.gone:
            return found.span(1)
        if re.fullmatch("t[A-Za-z0-9]{6}", name) and (proof.git or not re.fullmatch("[a-z]+", name[1:])):
            if proof.gone and proof.private:
                return 0, 7
        if re.match("tmp[a-z0-9_]{8}", name) and proof.gone and proof.temp and proof.private:
            return 3, 11
        return None

    def is_random_whole(self, name, proof):
        if not re.fullmatch(f"{PART}+", name) or len(name) not in (6, 8, 10) or not proof.gone:
            return False
        if proof.temp:
            if proof.private:
                return not self.words.is_of_words(name)
            return any(len(part) >= 3 and not is_like_a_word(part) for part in name.split("_"))
        return proof.is_in_tmp and proof.private and not self.words.is_of_words(name)

    def drawn(self, name, proof):
        if not proof.gone or proof.is_numbered or not proof.private:
            return None
        if not proof.temp and not proof.is_in_tmp:
            return self.beside(name, proof)
        end = self.before_extensions(name)
        if proof.is_directory and end < len(name):
            return None
        part = re.search(f"{PART}*\\Z", name[:end])[0]
        start = end - len(part)
        if len(part) < 6 or self.words.is_of_words(part):
            return None
        for drawn in (8, 10):
            kept = len(part) - drawn
            if kept > 0 and part[kept - 1] == "_":
                return start + kept, end
        return start, end

    @staticmethod
    def before_extensions(name):
        end = len(name)
        while True:
            dot = name[:end].rfind(".")
            if dot <= 0 or end - dot > 6:
                return end
            end = dot

    def beside(self, name, proof):
        end = self.before_extensions(name)
        whole = re.search(f"{PART}*\\Z", name[:end])[0]
        drawn = whole[-8:]
        if not proof.is_directory and len(proof.life.moved) == 1 and re.fullmatch("[a-z0-9_]{8}", drawn) and (
                whole[:-8] == "" or whole[-9] == "_") and not self.words.is_of_words(drawn) and (
                not self.words.is_of_words(whole)):
            return end - 8, end
        drawn = name[-6:]
        if proof.is_directory or not re.fullmatch("[A-Za-z0-9]{6}", drawn):
            return None
        if name[:-6] in DRAWERS and any(
                program == one or program.endswith("-" + one)
                for program in proof.life.drawers for one in DRAWERS[name[:-6]]):
            return len(name) - 6, len(name)
        kinds = sum(bool(re.search(kind, drawn)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
        whole = re.search(f"{PART}*\\Z", name)[0]
        if len(proof.life.moved) == 1 and kinds >= 2 and not self.words.is_of_words(
                drawn) and not self.words.is_of_words(whole):
            return len(name) - 6, len(name)
        return None

    # Tokens

    @staticmethod
    def starts(name):
        return [at for at in range(len(name)) if is_alnum(name[at]) and (at == 0 or not is_alnum(name[at - 1]))]

    @staticmethod
    def token_end(name, at):
        return at + len(re.match("[A-Za-z0-9]*", name[at:])[0])

    @staticmethod
    def is_word_at(name, at, word):
        end = at + len(word or "")
        return bool(word) and len(word) >= 2 and name.startswith(word, at) and not (
            end < len(name) and is_alnum(name[end]))

    def is_told_otherwise(self, name, proof):
        for at in self.starts(name):
            end = self.token_end(name, at)
            if self.is_word_at(name, at, proof.user) or self.is_word_at(name, at, proof.hostname):
                return True
            if self.uuid(name, at) or self.time(name, at) or is_hexadecimal_hash(name[at:end]):
                return True
            if name[at:end].isdigit() and proof.is_id(at, name[at:end]) or proof.is_user_id(at, name[at:end]):
                return True
        return False

    def tokens(self, name, at, end, proof):
        pieces = []
        while at < end:
            if not is_alnum(name[at]) or (at and is_alnum(name[at - 1])):
                at += 1
                continue
            is_beside = bool(pieces) and pieces[-1][2] == "${TIME}" and pieces[-1][1] + 1 == at
            piece, at = self.token(name, at, proof, is_beside)
            if piece:
                pieces.append(piece)
        return pieces

    def token(self, name, at, proof, is_beside_a_time=False):
        end = self.token_end(name, at)
        token = name[at:end]
        for word, variable, rule in ((proof.user, "${USER}", "user"), (proof.hostname, "${HOSTNAME}", "hostname")):
            if self.is_word_at(name, at, word):
                return (at, at + len(word), variable, rule), at + len(word)
        if proof.is_user_id(at, token):
            return (at, end, "${UID}", "user-id"), end
        if not proof.made:
            return None, end
        stop = self.uuid(name, at)
        if stop:
            return (at, stop, "${UUID}", "uuid"), stop
        for start in (at, at + len(re.match("[A-Za-z]*", token)[0])):
            stop = self.time(name, start)
            if stop:
                return (start, stop, "${TIME}", "time"), stop
        is_temporary = proof.gone or proof.temp
        found = re.search("0x(.*)", token)
        if found and re.fullmatch("[0-9A-Fa-f]{6,}" if is_temporary else "[0-9A-Fa-f]{12,}", found[1]) and (
                is_temporary or is_chance(found[1])):
            return (at + found.start(), end, "${ADDRESS}", "address"), end
        if is_hash(token, self.words) and (is_temporary or len(token) >= 20 or is_hexadecimal_hash(token)):
            return (at, end, "${HASH}", "hash"), end
        for found in re.finditer("[0-9]+", token):
            if proof.is_id(at + found.start(), found[0]):
                stop = at + found.end()
                return (at + found.start(), stop, "${PID}", "pid"), stop
        if is_temporary and re.fullmatch("[0-9]{6,}", token) and not is_chosen_number(token):
            return (at, end, "${RANDOM}", "number"), end
        is_drawn = not is_like_a_word(token) or (is_beside_a_time and not self.words.is_of_words(token))
        if is_temporary and len(token) >= 6 and is_drawn:
            return (at, end, "${RANDOM}", "random"), end
        return None, end

    @staticmethod
    def uuid(name, at):
        found = re.match(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![A-Za-z0-9])", name[at:])
        return at + 36 if found and is_chance(found[0]) else None

    def is_near(self, year, month, day):
        start, end = self.clock
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return False
        midnight = days(year, month, day) * DAY
        return midnight + 2 * DAY >= start and midnight <= end + 2 * DAY

    def time(self, name, at):
        start, end = self.clock
        found = re.match(
            r"([0-9]{4})([-_.: ]?)([0-9]{2})\2([0-9]{2})((?:[-_.: T]?(?:[0-9]{9}|[0-9]{6}|[0-9]{2,4})(?![0-9]|(?!T[0-9]|Z(?![A-Za-z0-9]))[A-Za-z])){0,5}+)Z?+(?![A-Za-z0-9])",
            name[at:])
        if found and self.is_near(int(found[1]), int(found[3]), int(found[4])):
            return at + found.end()
        digits = re.match("[0-9]*", name[at:])[0]
        unit = {10: 1, 13: 10**3, 16: 10**6, 19: 10**9}.get(len(digits))
        if unit and start <= int(digits) // unit + DAY and int(digits) // unit <= end + DAY:
            return at + len(digits)
        return None

    # What is named by what it holds, and by its target

    def stored(self, path, name, place, made):
        parts = path.split("/")
        above_1, above_2 = (["", ""] + parts)[-2], (["", ""] + parts)[-3]
        is_store = lambda one: one == "objects" or one.startswith(("tmp_objdir-", "incoming-"))
        is_spread = path in self.spread
        if re.fullmatch("[0-9a-f]+", name):
            if len(name) in (38, 62) and re.fullmatch("[0-9a-f]{2}", above_1) and is_store(above_2):
                return ["git-object"], "${HASH}"
            if len(name) == 2 and is_store(above_1) and (place.git or is_spread):
                return ["git-object"], "${HASH}"
            if is_spread and made:
                return ["hash"], "${HASH}"
        found = re.fullmatch("(.*-)[0-9a-z]{11,14}", name, re.S)
        if found and above_1 == "incremental" and made:
            return ["hash"], escaped(found[1]) + "${HASH}"
        found = re.fullmatch(r"pack-(?:[0-9a-f]{40}|[0-9a-f]{64})((?:\..*)?)", name, re.S)
        if found and above_1 == "pack" and is_store(above_2):
            return ["git-object"], "pack-${HASH}" + escaped(found[1])
        return None

    def derived(self, name, target):
        found = re.match(f"({PART}*)(?=\\.|\\Z)", name[len(target):])
        if name.startswith(target) and found and len(found[1]) in (6, 8, 10) and len(
                target.encode("latin-1")) >= 3 and found[1] not in ADDED:
            end = len(target) + len(found[1])
            return ["derived-name"], escaped(target) + "${RANDOM}" + escaped(name[end:])
        start = name.find(target)
        end = start + len(target)
        if not target or start < 0 or (start and is_alnum(name[start - 1])) or (end < len(name) and is_alnum(name[end])):
            return None
        pieces = []
        for found in itertools.chain(re.compile("[A-Za-z0-9]+").finditer(name, 0, start),
                                     re.compile("[A-Za-z0-9]+").finditer(name, end)):
            token = found[0]
            is_added = re.fullmatch("[a-z]+", token) and (len(token) < 6 or token in ADDED)
            is_long = len(token) >= 6 or (len(token) >= 4 and not is_like_a_word(token))
            if is_long and not is_added:
                pieces.append((found.start(), found.end(), "${RANDOM}", "derived-name"))
        return self.finish(name, pieces)

    # Texts that are no paths

    def link_text(self, link, text):
        if text.startswith("/"):
            return [(rules, name + ("/" if len(text) > 1 and text.endswith("/") else ""))
                    for rules, name, _ in self.names(text)]
        beside = above(link) + "/" + text
        if "/" not in text and beside in self.lives:
            outcomes = self.names(beside)
            if any(rules - {"root-alias"} for rules, *_ in outcomes):
                return [(rules, name.split("/")[-1]) for rules, name, _ in outcomes]
        life = self.lives[link]
        proof = Proof(self, Place(), link, life, bool(life.made), not life.is_alive)
        proof.user = proof.user_id = None
        proof.hostname = self.hostname
        return [self.text(text, proof)]

    def abstract(self, name, is_bound):
        if is_bound and re.fullmatch("[0-9A-Fa-f]{5}", name):
            return frozenset({"autobind"}), "@${RANDOM}"
        proof = Proof(self, Place(), None, Life(), is_bound, is_bound)
        proof.user = proof.user_id = proof.hostname = None
        rules, text = self.text(name, proof)
        return rules, "@" + text if rules else None

    def text(self, text, proof):
        is_kept = any(stands_in(argument, text) for argument in self.command) if text else True
        folded = None if is_kept or "${REDACTED" in text else self.finish(
            text, self.tokens(text, 0, len(text), proof))
        return (frozenset(folded[0]), folded[1]) if folded else (frozenset(), None)


class Proof:
    """What is known of one component."""

    def __init__(self, folder, place, path, life, made, gone):
        self.folder, self.path, self.life = folder, path, life
        self.made, self.gone, self.temp, self.git = made, gone, place.temp, place.git
        self.is_in_tmp = place.text.endswith("/tmp")
        parts = place.text.split("/")
        self.is_numbered = parts[-1] == "pytest-of-${USER}" or (
            parts[-1].startswith("pytest-") and len(parts) > 1 and parts[-2].startswith("pytest-of-"))
        self.is_directory = bool(life and life.made == "directory")
        is_users = place.temp or any(is_beneath(path or "", one) for one in USER_PLACES)
        self.user = folder.user if is_users else None
        self.user_id = folder.user_id if is_users and len(folder.user_id or "") >= 4 else None
        self.hostname = folder.hostname if made else None

    @property
    def private(self):
        """Whether it was made as mkstemp does, which is not told: asked for where it may have been."""
        if not (self.life and self.life.may_be_private):
            return False
        if self.folder.private is not None:
            return self.path in self.folder.private
        self.folder.asked.add(self.path)
        return self.folder.choice.get(self.path, False)

    def is_user_id(self, at, token):
        return self.user_id == token and (self.path, at) not in self.folder.counting_like_user

    def is_id(self, at, digits):
        if self.path is None:
            number = self.folder.as_id(digits)
            return number is not None and number in self.folder.process_of
        return self.folder.is_maker(self.path, digits) and (self.path, at) not in self.folder.counting


def days(year, month, day):
    """Days since 1970, of any day up to the 31st of a month."""
    year -= month <= 2
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_469
