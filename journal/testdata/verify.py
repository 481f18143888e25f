"""Verifies exports of journals: verify.py [--open] KEYS EXPORT...

KEYS is a folder of .pub files to trust. Each line printed is EXPORT, a tab, and `ok` or a fault: its name, a tab, where it is. The exit
status is 0 if all are ok, else 6. README.md in the parent folder says what every line of this program checks.
"""
import base64
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys

from ed25519 import verify

ZEROS = bytes(32)
ORDER = "at body epoch from head id key kind n note path prev run seq sig v".split()
ALWAYS, PLAIN, SIGNED = {"at", "body", "kind", "path", "run", "seq", "v"}, {"epoch", "n", "note"}, {"from", "head", "id", "key", "prev"}
TERMINAL = {"intent.attest", "intent.fail", "intent.cancel"}
TIME = re.compile(r'"(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{9}Z"', re.ASCII)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TYPES = {"digest": DIGEST, "key": re.compile("[0-9a-f]{64}"), "text": re.compile(".+", re.DOTALL), "name": re.compile("[A-Za-z0-9_-]{1,128}")}

KINDS = {  # kind: (whose act, fields of the body)
    "intent.draft": ("executor", "program_kind program_digest?:digest prose? skill? skill_digest?:digest inputs bounds user origin "
                     "keys{user:key executor:key} frozen{*:digest} title? labels? trace? parent?{run relation} "
                     "fork_of?{run:name seq:seq hash:digest}"),
    "intent.compiled": ("executor", "intent? intent_hash? program_digest?:digest model? attempts"),
    "intent.clarify": ("executor", "gate round questions[]{id prompt type options default? required}"),
    "intent.answer": ("user", "gate answers via note? decided_by? on_behalf_of?:text"),
    "intent.accept": ("user", "intent_hash program_digest:digest revision bounds via gate? note? decided_by? on_behalf_of?:text"),
    "plan.proposed": ("executor", "intent_hash program_digest:digest revision accepted_by"),
    "intent.correct": ("executor", "target reason material reasons intent_hash program_digest:digest revision on_behalf_of:text"),
    "intent.dispatch": ("executor", "child skill skill_digest:digest bounds"),
    "intent.attest": ("executor", "outcome outputs_digest:digest cited evidence"),
    "intent.fail": ("executor", "reason code? message bound? cited evidence"),
    "intent.cancel": ("user", "reason via gate? cited evidence on_behalf_of?:text"),
    "policy.gate": ("executor", "gate gate_kind question subject actions deny digest expires_at?"),
    "policy.gate.resolve": ("user", "gate action answer? feedback? note? decided_by? subject_digest fail_reason? via on_behalf_of?:text"),
}


class Fault(Exception):
    pass


class Number(str):
    """A number as it is spelled, so that no digit is lost."""


class Object(dict):
    def __init__(self, pairs):
        super().__init__(pairs)
        self.twice = len(self) != len(pairs)


def refuse(constant):
    raise ValueError(constant)


sys.setrecursionlimit(10_500)
JSON = json.JSONDecoder(object_pairs_hook=Object, parse_int=Number, parse_float=Number, parse_constant=refuse)


def sha(b):
    return hashlib.sha256(b).digest()


def digest(b):
    return "sha256:" + b.hex()


def whole(spelled):
    return re.fullmatch("[1-9][0-9]{0,15}", spelled) is not None and int(spelled) < 2**53


def is_time(spelled):
    m = TIME.fullmatch(spelled)
    try:
        return bool(m and datetime.date(int(m[1]) or 400, int(m[2]), int(m[3])))
    except ValueError:
        return False


def member(name, spelled, value):
    """Whether a member's value is as it must be."""
    if name == "body":
        return True
    if name == "at":
        return is_time(spelled)
    if name == "v":
        return isinstance(value, Number)
    if name == "note":
        return spelled == "true"
    if name in ("epoch", "n", "seq"):
        return isinstance(value, Number) and whole(spelled)
    return isinstance(value, str) and not isinstance(value, Number) and spelled == json.dumps(value, ensure_ascii=False)


def members(text):
    """The members of a record, each as it is spelled."""
    if text == "{}":
        return
    at = 1
    while True:
        name = re.compile(r'"([a-z]+)":').match(text, at)
        if text[:1] != "{" or not name or name[1] not in ORDER:
            raise Fault("malformed")
        value, end = JSON.raw_decode(text, name.end())
        yield name[1], text[name.end():end], value
        if text[end:end + 1] != ",":
            break
        at = end + 1
    if end != len(text) - 1 or text[end] != "}":
        raise Fault("malformed")


def parse(line):
    """A record as a dict, and the fault that it has, if any."""
    record, last = {}, -1
    try:
        for name, spelled, value in members(line.decode()):
            if ORDER.index(name) <= last or not member(name, spelled, value):
                return {}, "malformed"
            last = ORDER.index(name)
            record[name] = value
    except (Fault, ValueError, RecursionError):
        return {}, "malformed"
    signed = record.get("kind") in KINDS
    if "kind" in record and set(record) & (PLAIN if signed else SIGNED | {"sig"}):
        return {}, "malformed"
    if record.get("v", "1") != "1":
        return record, "version"
    if (ALWAYS | SIGNED if signed else ALWAYS) - set(record):
        return record, "field_missing"
    return record, None


def shape_ok(value, fields):
    """Whether an object has the fields that the notation asks for."""
    if not isinstance(value, Object) or value.twice:
        return False
    specs = {m[1]: m for m in re.finditer(r"([\w*]+)(\[\])?(\?)?(?:\{([^}]*)\})?(?::(\w+))?", fields)}
    for name, item in value.items():
        spec = specs.get(name) or specs.get("*")
        if not spec:
            return False
        _, many, _, inner, kind = spec.groups()
        if kind == "seq" and not (isinstance(item, Number) and whole(item)):
            return False
        if kind in TYPES and not (type(item) is str and TYPES[kind].fullmatch(item)):
            return False
        if many and not isinstance(item, list):
            return False
        if inner and not all(shape_ok(each, inner) for each in (item if many else [item])):
            return False
    return all(name in value or m[3] or name == "*" for name, m in specs.items())


def references(record, text):
    """The blobs that a record names, each with its size if that is told."""
    body, kind = record["body"], record["kind"]
    payloads = [body] if record.get("note") else []
    if isinstance(body, Object):
        names = ("inputs", "prose", "subject", "answer") if kind in KINDS else ("value", "input", "state")
        error = body.get("error")
        if not payloads:
            payloads = [body.get(name) for name in names]
            payloads += [error.get("detail")] if isinstance(error, Object) and kind not in KINDS else []
    for payload in payloads:
        if isinstance(payload, Object) and list(payload) == ["$blob", "size"]:
            name, size = payload["$blob"], payload["size"]
            if f'{{"$blob":"{name}","size":{size}}}' in text and DIGEST.fullmatch(name) and whole(size):
                yield name, int(size)
    if (kind in KINDS or kind in ("run.correction_requested", "run.continued")) and isinstance(body, Object):
        named = [body.get(name) for name in ("program_digest", "skill_digest", "outputs_digest")]
        frozen, kept = body.get("frozen"), body.get("keep")
        named += list(frozen.values()) if isinstance(frozen, Object) else []
        for name in named + (kept if isinstance(kept, list) else []):
            if type(name) is str and DIGEST.fullmatch(name):
                yield name, None


class Journal:
    """One pass over one file of records."""

    def __init__(self, trusted, report, run=None):
        self.trusted, self.report, self.run = trusted, report, run
        self.seq, self.head, self.prev, self.envelopes = 0, ZEROS, ZEROS, 0
        self.published, self.fork, self.drafted = {}, None, False  # published: role to key
        self.terminal, self.covered, self.blobs = False, False, {}

    def read(self, path):
        content = path.read_bytes() if path.exists() else b""
        *lines, rest = content.split(b"\n")
        for line in lines:
            self.add(line, *parse(line))
        if rest:
            self.add(rest, {}, "malformed")

    def add(self, line, record, fault):
        due, before = self.seq + 1, self.head
        self.head, self.seq, self.covered = sha(before + line), int(record.get("seq", due)), False
        if not fault:
            self.run = self.run or record["run"]
            self.publish(record)
            fault = self.check(line, record, due, before)
            self.count(line, record)
        if fault:
            self.report(fault, self.seq)

    def publish(self, record):
        body = record["body"]
        if record["kind"] != "intent.draft" or self.drafted:
            return
        self.drafted = True
        if isinstance(body, Object):
            keys, fork = body.get("keys"), body.get("fork_of")
            for role in ("user", "executor"):
                if shape_ok(Object([("key", keys.get(role) if isinstance(keys, Object) else None)]), "key:key"):
                    self.published[role] = bytes.fromhex(keys[role])
            if shape_ok(fork, "run:name seq:seq hash:digest"):
                self.fork = fork

    def check(self, line, record, due, before):
        if record["run"] != self.run:
            return "other_run"
        if int(record["seq"]) != due:
            return "gap"
        return self.check_envelope(line, record, before) if record["kind"] in KINDS else None

    def check_envelope(self, line, record, before):
        role = next((r for r, key in self.published.items() if digest(sha(key)) == record["key"] and key in self.trusted), None)
        if not role:
            return "unknown_key"
        if not record.get("sig"):
            return "signature_missing"
        try:
            signature = base64.b64decode(record["sig"], validate=True)
        except ValueError:
            return "signature_invalid"
        if len(signature) != 64 or base64.b64encode(signature).decode() != record["sig"]:
            return "signature_invalid"
        if not verify(self.published[role], signature, line[:-104] + line[-7:]):
            return "signature_invalid"
        act_of, fields = KINDS[record["kind"]]
        body = record["body"]
        named = isinstance(body, Object) and type(body.get("on_behalf_of")) is str and body["on_behalf_of"] != ""
        if record["from"] != role or (role == "user" and (act_of != "user" or named)) or (role == "executor" and act_of == "user" and not named):
            return "wrong_principal"
        if not shape_ok(body, fields) or (record["kind"] == "intent.draft" and body["keys"]["user"] == body["keys"]["executor"]):
            return "body"
        if record["prev"] != digest(self.prev):
            return "prev"
        if record["head"] != digest(before):
            return "head"
        return None

    def count(self, line, record):
        for reference in references(record, line.decode()):
            self.blobs.setdefault(reference, self.seq)
        if record["kind"] in KINDS:
            self.prev, self.covered = sha(line), True
            self.envelopes += 1
            self.terminal = self.terminal or record["kind"] in TERMINAL


def check_blobs(folder, blobs, report):
    for (name, size), seq in blobs.items():
        path = folder / "blobs" / name[7:]
        if not path.is_file():
            report("blob_missing", seq)
            continue
        content = path.read_bytes()
        if digest(sha(content)) != name or size not in (None, len(content)):
            report("blob_mismatch", seq)


def check_files(folder, expected, report):
    for where, folders, files in os.walk(folder):
        here = pathlib.Path(where)
        for name in list(folders):
            if here != folder or name not in ("base", "blobs", "keys") or (here / name).is_symlink():
                report("file_unexpected", here / name)
                folders.remove(name)
        for name in files:
            path = here / name
            if path.is_symlink() or path.relative_to(folder).as_posix() not in expected:
                report("file_unexpected", path)


def verify_export(folder, trusted, may_be_open, report):
    journal = Journal(trusted, report)
    journal.read(folder / "records.ndjson")
    if not journal.terminal and not may_be_open:
        report("unterminated", journal.seq)
    if journal.terminal and not journal.covered:
        report("tail_uncovered", journal.seq)

    head = f'{{"envelopes":{journal.envelopes},"hash":"{digest(journal.head)}","run":{json.dumps(journal.run or "", ensure_ascii=False)},"seq":{journal.seq}}}'
    path = folder / "head.json"
    if not path.is_file() or path.read_bytes() != head.encode():
        report("truncated", "head.json")

    expected, blobs = {"records.ndjson", "head.json"}, journal.blobs
    fork, seen = journal.fork, {journal.run}
    while fork and fork["run"] not in seen:
        seen.add(fork["run"])
        name = f"base/{fork['run']}.ndjson"
        expected.add(name)
        base = Journal(trusted, report, fork["run"])
        base.read(folder / name)
        if base.terminal and not base.covered:
            report("tail_uncovered", name)
        if (base.seq, digest(base.head)) != (int(fork["seq"]), fork["hash"]):
            report("truncated", name)
        blobs, fork = {**base.blobs, **blobs}, base.fork

    for role, key in journal.published.items():
        name = f"keys/{role}.pub"
        expected.add(name)
        path = folder / name
        if not path.is_file() or path.read_bytes() != key.hex().encode() + b"\n":
            report("unknown_key", name)
    check_blobs(folder, blobs, report)
    check_files(folder, expected | {"blobs/" + name[7:] for name, _ in blobs}, report)


def main(arguments):
    may_be_open = "--open" in arguments
    keys, *exports = [a for a in arguments if a != "--open"]
    trusted = {bytes.fromhex(f.read_text().strip()) for f in pathlib.Path(keys).glob("*.pub")}
    total = 0
    for export in exports:
        faults = []
        verify_export(pathlib.Path(export), trusted, may_be_open, lambda fault, where: faults.append((fault, where)))
        for fault, where in faults:
            print(export, fault, where, sep="\t")
        if not faults:
            print(export, "ok", sep="\t")
        total += len(faults)
    return 6 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
