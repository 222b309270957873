#!/usr/bin/env python3
"""A verifier of evidence bundles, written from docs/formats/bundle.md alone, with the standard library alone.

Usage: bundle_verifier.py BUNDLE..., or --many with bundles on stdin, each behind its length in eight bytes.
One line a bundle: its name, a tab, and `good` or the code of the first damage. Exits 0 when all are good, else 1.
"""

import hashlib
import re
import sys
import zlib

ARCHIVE, DECODED, LINE, EVENTS, DEPTH = 100 << 20, 1 << 30, 1 << 20, 2000000, 64
ALGORITHMS = {"canon": "jcs-rfc8785", "hash": "sha256", "root": 'sha256(concat(content_hash + "\\n"))'}
DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
BLOCK = bytes(512)


class Bad(Exception):
    """Damage, by its code."""


def demand(condition, code):
    if not condition:
        raise Bad("integrity/" + code)


# --- section 3: JSON -------------------------------------------------------------------------------------------

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)")
STRING = re.compile(r'"((?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*)"')
ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Reader:
    def __init__(self, text):
        self.text, self.at = text, 0

    def space(self):
        while self.text[self.at : self.at + 1] in (" ", "\t", "\n", "\r") and self.at < len(self.text):
            self.at += 1

    def take(self, token):
        demand(self.text.startswith(token, self.at), "json-syntax")
        self.at += len(token)

    def value(self, depth):
        head = self.text[self.at : self.at + 1]
        if head == "{":
            return self.object(depth)
        if head == "[":
            return self.array(depth)
        if head == '"':
            return self.string()
        for word, value in (("true", True), ("false", False), ("null", None)):
            if head == word[0]:
                self.take(word)
                return value
        match = NUMBER.match(self.text, self.at)
        demand(match, "json-syntax")
        self.at = match.end()
        after = self.text[self.at : self.at + 1]
        demand(not (after and after in "0123456789"), "json-syntax")
        demand(not (after and after in ".eE") and match.group() != "-0", "json-float")
        demand(len(match.group()) <= 17 and abs(int(match.group())) <= 2**53 - 1, "json-integer")
        return int(match.group())

    def array(self, depth):
        demand(depth < DEPTH, "json-depth")
        self.take("[")
        self.space()
        items = []
        if self.text.startswith("]", self.at):
            self.at += 1
            return items
        while True:
            items.append(self.value(depth + 1))
            self.space()
            if self.text.startswith("]", self.at):
                self.at += 1
                return items
            self.take(",")
            self.space()

    def object(self, depth):
        demand(depth < DEPTH, "json-depth")
        self.take("{")
        self.space()
        members = {}
        if self.text.startswith("}", self.at):
            self.at += 1
            return members
        while True:
            key = self.string()
            demand(key not in members, "json-duplicate-key")
            self.space()
            self.take(":")
            self.space()
            members[key] = self.value(depth + 1)
            self.space()
            if self.text.startswith("}", self.at):
                self.at += 1
                return members
            self.take(",")
            self.space()

    def string(self):
        match = STRING.match(self.text, self.at)
        demand(match, "json-syntax")
        self.at = match.end()
        units = ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else SHORT.get(m[2], m[2]), match[1])
        try:
            # Two halves that stand together are one character; one alone is none.
            return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise Bad("integrity/json-surrogate") from None


def parse(raw):
    demand(not raw.startswith(b"\xef\xbb\xbf"), "json-bom")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Bad("integrity/json-encoding") from None
    reader = Reader(text)
    reader.space()
    value = reader.value(0)
    reader.space()
    demand(reader.at == len(text), "json-syntax")
    return value


ESCAPED = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def canonical(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(ESCAPED.get(c, c) if c >= " " or c in ESCAPED else "\\u%04x" % ord(c) for c in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
    return "{" + ",".join(canonical(key) + ":" + canonical(value[key]) for key in keys) + "}"


# --- section 1: the archive ------------------------------------------------------------------------------------


def gunzip(raw):
    demand(len(raw) <= ARCHIVE, "archive-limit")
    inflate = zlib.decompressobj(wbits=31)
    try:
        decoded = inflate.decompress(raw, DECODED + 1)
        demand(len(decoded) <= DECODED, "decoded-limit")
        decoded += inflate.flush()
    except zlib.error:
        raise Bad("integrity/gzip") from None
    demand(inflate.eof, "gzip")
    demand(not inflate.unused_data, "trailing")
    return decoded


def octal(field):
    match = re.fullmatch(rb"([0-7]+)[\0 ]*", field)
    demand(match, "tar")
    return int(match[1], 8)


def member(tar, at, name):
    header = tar[at : at + 512]
    demand(len(header) == 512, "tar")
    demand(header != BLOCK, "member-order")
    stated = re.fullmatch(rb"[\0 ]*([0-7]+)[\0 ]*", header[148:156])
    demand(stated and int(stated[1], 8) == sum(header[:148] + b" " * 8 + header[156:]), "tar")
    demand(header[156:157] in (b"0", b"\0"), "member-type")
    stored = header[:100]
    for known in (b"manifest.json", b"events.ndjson"):
        demand(known == name or stored != known.ljust(100, b"\0"), "member-order")
    demand(stored == name.ljust(100, b"\0") and header[345:500] == bytes(155), "member-name")
    demand(header[157:257] == bytes(100), "member-type")
    size = octal(header[124:136])
    demand(size <= DECODED, "decoded-limit")
    at += 512
    demand(at + size <= len(tar), "tar")
    content, at = tar[at : at + size], at + size
    filling = -size % 512
    demand(at + filling <= len(tar), "tar")
    demand(tar[at : at + filling] == bytes(filling), "trailing")
    return content, at + filling


def members(tar):
    manifest, at = member(tar, 0, b"manifest.json")
    demand(len(manifest) <= LINE, "line-limit")
    events, at = member(tar, at, b"events.ndjson")
    rest = tar[at:]
    demand(len(rest) >= 1024, "tar")
    demand(rest == bytes(len(rest)) and len(rest) % 512 == 0, "trailing")
    return manifest, events


# --- sections 4 to 6 -------------------------------------------------------------------------------------------


def digest(raw):
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_manifest(manifest):
    demand(isinstance(manifest, dict), "manifest")
    get = manifest.get
    demand(is_count(get("schema_version")), "manifest")
    demand(get("schema_version") == 1, "version")
    for key in ("algorithms", "producer", "files"):
        demand(isinstance(get(key), dict), "manifest")
    for key, expected in ALGORITHMS.items():
        demand(isinstance(get("algorithms").get(key), str), "manifest")
        demand(get("algorithms")[key] == expected, "algorithms")
    demand(all(isinstance(get("producer").get(key), str) for key in ("name", "version")), "manifest")
    demand(set(get("files")) == {"events.ndjson"}, "manifest")
    events = get("files")["events.ndjson"]
    demand(isinstance(events, dict) and events.get("path") == "events.ndjson", "manifest")
    demand(is_count(events.get("bytes")) and is_count(get("event_count")), "manifest")
    demand(isinstance(get("run_id"), str) and get("run_id"), "manifest")
    for text in (events.get("sha256"), get("run_root"), get("bundle_id")):
        demand(isinstance(text, str) and DIGEST.match(text), "manifest")
    demand(get("bundle_id") == get("run_root"), "bundle-id")
    demand(get("event_count") <= EVENTS, "event-limit")


TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|[+-]00:00)\Z"
)


def is_time(text):
    match = isinstance(text, str) and TIME.match(text)
    if not match:
        return False
    year, month, day, hour, minute, second = map(int, match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return year >= 1970 and 1 <= month <= 12 and 1 <= day <= days[month - 1] and hour < 24 and minute < 60 and second <= 60


def check_event(event, line, sequence, manifest):
    demand(isinstance(event, dict), "event")
    get = event.get
    demand(get("specversion") == "1.0" and get("datacontenttype") == "application/json", "event")
    demand(all(isinstance(get(key), str) and get(key) for key in ("type", "source")), "event")
    demand(is_time(get("time")) and isinstance(get("assaygit"), str), "event")
    for key, part in (("assayproducer", "name"), ("assayproducerversion", "version")):
        demand(isinstance(get(key), str), "event")
        demand(get(key) == manifest["producer"][part], "producer")
    demand(isinstance(get("assaypii"), bool) and isinstance(get("assaysecrets"), bool), "event")
    demand("subject" not in event or isinstance(get("subject"), str), "event")
    demand("data" in event, "event")
    demand(isinstance(get("assayrunid"), str), "event")
    demand(get("assayrunid") == manifest["run_id"], "run-id")
    demand(isinstance(get("assayseq"), int) and not isinstance(get("assayseq"), bool), "event")
    demand(get("assayseq") == sequence, "sequence")
    demand(isinstance(get("id"), str), "event")
    demand(get("id") == "%s:%d" % (get("assayrunid"), sequence), "event-id")
    keys = ("data", "datacontenttype", "specversion", "subject", "type")
    content = canonical({key: event[key] for key in keys if key in event})
    demand(isinstance(get("assaycontenthash"), str), "event")
    demand(get("assaycontenthash") == digest(content.encode()), "content-hash")
    demand(canonical(event).encode() == line, "not-canonical")


def verify(raw):
    manifest_bytes, events = members(gunzip(raw))
    manifest = parse(manifest_bytes)
    check_manifest(manifest)
    root, count = hashlib.sha256(), 0
    lines = events.split(b"\n")
    last = lines.pop()
    for line in lines:
        demand(len(line) <= LINE, "line-limit")
        demand(count < EVENTS, "event-limit")
        event = parse(line)
        check_event(event, line, count, manifest)
        root.update(event["assaycontenthash"].encode() + b"\n")
        count += 1
    demand(len(last) <= LINE, "line-limit")
    demand(not last, "line-end")
    demand(count == manifest["event_count"], "event-count")
    stated = manifest["files"]["events.ndjson"]
    demand(stated["bytes"] == len(events), "file-size")
    demand(stated["sha256"] == digest(events), "file-hash")
    demand("sha256:" + root.hexdigest() == manifest["run_root"], "run-root")
    demand(canonical(manifest).encode() == manifest_bytes, "not-canonical")


def many(stream):
    """Bundles one after the other, each behind its length in eight bytes."""
    while length := stream.read(8):
        yield stream.read(int.from_bytes(length, "big"))


def files(paths):
    for path in paths:
        with open(path, "rb") as file:
            yield file.read(ARCHIVE + 1)


def main(paths):
    sys.setrecursionlimit(10000)
    is_good = True
    for at, raw in enumerate(many(sys.stdin.buffer) if paths == ["--many"] else files(paths)):
        try:
            verify(raw)
            verdict = "good"
        except Bad as bad:
            verdict, is_good = str(bad), False
        print(at if paths == ["--many"] else paths[at], verdict, sep="\t")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
