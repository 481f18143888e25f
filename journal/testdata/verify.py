"""Verifies exports of journals: verify.py [--open] KEYS EXPORT...

KEYS is a folder of .pub files to trust. Each line printed is EXPORT, a tab, and `ok` or a fault: its name, the seq it names (0: none) and the
file, with tabs between. The exit status is 0 if all are ok, else 6. README.md in the parent folder says what every line of this program checks.
"""
import base64
import datetime
import decimal
import hashlib
import json
import os
import pathlib
import re
import stat
import sys

from ed25519 import verify

ZEROS = bytes(32)
MAX_RECORD, MAX_BLOB, MAX_DEPTH = 64 << 20, 16 << 20, 10_000
ORDER = "at body epoch from head id key kind n note path prev run seq sig v".split()
ALWAYS, PLAIN, SIGNED = {"at", "body", "kind", "path", "run", "seq", "v"}, {"epoch", "n", "note"}, {"from", "head", "id", "key", "prev"}
TERMINAL = {"intent.attest", "intent.fail", "intent.cancel"}
TIME = re.compile(r'"(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{9}Z"', re.ASCII)
SPACE = re.compile(r"[ \t\n\r]*")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REFERENCE = re.compile(r'\{"\$blob":"(sha256:[0-9a-f]{64})","size":([1-9][0-9]{0,15})\}')
TYPES = {"digest": DIGEST, "key": re.compile("(?!0{64})[0-9a-f]{64}"), "text": re.compile(".+", re.DOTALL), "name": re.compile("[A-Za-z0-9_-]{1,128}")}

KINDS = {  # kind: (whose act, fields of the body)
    "intent.draft": ("executor", "program_kind program_digest?:digest prose? skill? skill_digest?:digest inputs bounds user "
                     "origin keys{user:key executor:key} frozen{*:digest} title? labels? trace? parent?{run relation} "
                     "fork_of?{run:name seq:seq hash:digest} hold? pipeline?{envelope_id:text request_id:text "
                     "thread_id:text version} rollback? by?:text rules? asks?:text files? followup? within?"),
    "intent.compiled": ("executor", "intent? intent_hash? program_digest?:digest model? attempts"),
    "intent.clarify": ("executor", "gate round questions[]{id prompt type options default? required}"),
    "intent.answer": ("user", "gate answers via client? note? decided_by? on_behalf_of?:text"),
    "intent.accept": ("user", "intent_hash program_digest:digest revision bounds via client? gate? note? decided_by? on_behalf_of?:text"),
    "plan.proposed": ("executor", "intent_hash program_digest:digest revision accepted_by"),
    "intent.correct": ("executor", "target reason material reasons intent_hash program_digest:digest revision on_behalf_of:text"),
    "intent.dispatch": ("executor", "child skill skill_digest:digest bounds"),
    "intent.attest": ("executor", "outcome outputs_digest:digest cited evidence terminal_reason? termination_reason?"),
    "intent.fail": ("executor", "reason code? message bound? cited evidence terminal_reason? termination_reason?"),
    "intent.cancel": ("user", "reason via gate? cited evidence on_behalf_of?:text terminal_reason? termination_reason?"),
    "policy.gate": ("executor", "gate gate_kind question subject actions deny digest expires_at?"),
    "policy.gate.resolve": ("user", "gate action answer? feedback? note? decided_by? subject_digest fail_reason? via client? on_behalf_of?:text"),
}
PLAIN_KINDS = set("""
draft.updated run.launched run.queued run.started run.resumed run.parked run.interrupted run.cancel_requested run.correction_requested run.forked run.continued
effect.intended effect.failed effect.suspended effect.finished effect.sent effect.given effect.late effect.lost gate.taken group.closed timer.set timer.fired clock.read
bound.warned bound.refused bound.extended bound.reserved bound.used plan.drafted plan.step plan.output
stage.started stage.finished stage.retrying stage.skipped transition turn.merged checkpoint.created
agent.step_started agent.message agent.router_decided agent.tool_call_request agent.approval_decided agent.tool_call_result agent.finish agent.error
finding.recorded waiver.recorded handoff.overridden
worktree.created worktree.prepared setup.finished diff.recorded check.finished delivery.committed delivery.applied delivery.skipped followup.created followup.fixed_point
worker.started worker.event worker.ended task.status task.log task.output
""".split())


class Fault(Exception):
    pass


class Number(str):
    """A number as it is spelled, so that no digit is lost."""


class Record(dict):
    text = ""  # the body as it is spelled


class Object(dict):
    def __init__(self, pairs):
        super().__init__(pairs)
        self.twice = len(self) != len(pairs)


def refuse(constant):
    raise ValueError(constant)


sys.setrecursionlimit(25_000)
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


def too_deep(text):
    """Whether the body nests too deep; the record is a level of its own."""
    depth = 0
    if text.count("[") + text.count("{") > MAX_DEPTH + 1:
        for token in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
            if depth > MAX_DEPTH + 1:
                return True
    return False


def members(text):
    """The members of a record, each as it is spelled."""
    if text == "{}":
        return
    if too_deep(text):
        raise Fault("malformed")
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


def number(spelled):
    """A number as RFC 8785 spells it: as ECMAScript prints a float64."""
    value = float(spelled)
    if value in (float("inf"), float("-inf")):
        raise ValueError(spelled)
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    digits, point = "".join(map(str, digits)), len(digits) + exponent
    if value == 0:
        return "0"
    if 0 < point <= 21:
        text = digits.ljust(point, "0")
        text = text[:point] + ("." + text[point:] if text[point:] else "")
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        text = digits[0] + ("." + digits[1:] if digits[1:] else "") + "e" + format(point - 1, "+d")
    return "-" * sign + text


def canonical(value):
    """The RFC 8785 form of a value."""
    if isinstance(value, Number):
        return number(value)
    if isinstance(value, list):
        return "[" + ",".join([canonical(each) for each in value]) + "]"
    if not isinstance(value, Object):
        return json.dumps(value, ensure_ascii=False)
    if value.twice:
        raise ValueError("a name stands twice")
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join([json.dumps(name, ensure_ascii=False) + ":" + canonical(value[name]) for name in names]) + "}"


def items(text):
    """Name and spelled value of each member of the object that text is, also of repeated ones; of anything else, nothing."""
    at = SPACE.match(text, 1).end()
    while text[0] == "{" and text[at] != "}":
        name, at = JSON.raw_decode(text, at)
        at = SPACE.match(text, SPACE.match(text, at).end() + 1).end()
        _, end = JSON.raw_decode(text, at)
        yield name, text[at:end]
        at = SPACE.match(text, end).end()
        at = SPACE.match(text, at + (text[at] == ",")).end()


def payloads(record):
    """The payloads of a record, as they are spelled."""
    if record.get("note"):
        return [record.text]
    found, signed = [], record["kind"] in KINDS
    for name, text in items(record.text):
        if name in (("inputs", "prose", "subject", "answer") if signed else ("value", "input", "state")):
            found.append(text)
        elif name == "error" and not signed:
            found += [detail for inner, detail in items(text) if inner == "detail"]
    return found


def form_ok(record):
    """Whether the body is as its kind wants it, before it is looked into."""
    if record["kind"] in KINDS and canonical(record["body"]) != record.text:
        return False
    return all(is_reference(text) or "$blob" not in dict(items(text)) for text in payloads(record))


def is_reference(text):
    m = REFERENCE.fullmatch(text)
    return m is not None and whole(m[2])


def parse(line):
    """A record as a dict, and the fault that it has, if any."""
    record, last = Record(), -1
    try:
        for name, spelled, value in members(line.decode()):
            if ORDER.index(name) <= last or not member(name, spelled, value):
                return {}, "malformed"
            last = ORDER.index(name)
            record[name] = value
            record.text = spelled if name == "body" else record.text
        signed = record.get("kind") in KINDS
        if "kind" in record and (set(record) & (PLAIN if signed else SIGNED | {"sig"}) or "body" in record and not form_ok(record)):
            return {}, "malformed"
    except (Fault, ValueError, RecursionError):
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


def references(record):
    """The blobs that a record names, each with its size if that is told."""
    for text in payloads(record):
        if is_reference(text):
            digest, size = REFERENCE.fullmatch(text).groups()
            yield digest, int(size)
    kind = record["kind"]
    signed, keeps = kind in KINDS, kind in ("run.continued", "effect.finished", "effect.failed", "effect.lost", "effect.given")
    if not signed and not keeps and kind not in ("run.correction_requested", "draft.updated"):
        return
    for name, text in items(record.text):
        value, named = JSON.decode(text), []
        if not keeps and name in ("program_digest", "skill_digest") or signed and name == "outputs_digest":
            named = [value]
        elif not keeps and name == "frozen":
            named = [JSON.decode(each) for _, each in items(text)]
        elif keeps and name == "keep" and isinstance(value, list):
            named = value
        for each in named:
            if type(each) is str and DIGEST.fullmatch(each):
                yield each, None


def open_regular(folder, name):
    """A file of an export, open, or None: nothing but a regular file is opened, and no link is followed."""
    path, *parts = folder, *name.split("/")
    try:
        for part in parts:
            if path != folder and not stat.S_ISDIR(os.lstat(path).st_mode):
                return None
            path = path / part
        return open(path, "rb") if stat.S_ISREG(os.lstat(path).st_mode) else None
    except FileNotFoundError:
        return None


def read(folder, name, limit):
    """What a file holds, but no more than a byte over the limit; None if there is none."""
    file = open_regular(folder, name)
    if not file:
        return None
    with file:
        return file.read(limit + 1)


class Journal:
    """One pass over one file of records."""

    def __init__(self, folder, file, trusted, blobs, report, run=None):
        self.trusted, self.blobs, self.run, self.file = trusted, blobs, run, file  # blobs: (digest, size) to (seq, file)
        self.report = lambda fault, seq: report(fault, seq, file)
        self.seq, self.head, self.prev, self.envelopes = 0, ZEROS, ZEROS, 0
        self.published, self.fork, self.drafted = {}, None, False  # published: role to key
        self.terminal, self.after = False, 0  # after: the first record behind the terminal envelope
        records = open_regular(folder, file)
        if records:
            with records:
                self.read(records)

    def read(self, records):
        while line := records.readline(MAX_RECORD + 1):
            ends = line.endswith(b"\n")
            if not ends and len(line) > MAX_RECORD:
                self.meet(0)
                self.report("malformed", self.seq)
                return
            self.add(line[:-1] if ends else line, *(parse(line[:-1]) if ends else ({}, "malformed")))

    def meet(self, seq):
        self.seq = seq or self.seq + 1
        if self.terminal:
            self.after = self.after or self.seq

    def add(self, line, record, fault):
        due, before = self.seq + 1, self.head
        self.head = sha(before + line)
        self.meet(int(record.get("seq", 0)))
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
        kind, role, unsigned = record["kind"], None, None
        if kind in KINDS:
            role, unsigned = self.signer(line, record)
            if not unsigned and DIGEST.fullmatch(record["head"]) and record["run"] == self.run:
                self.head = sha(bytes.fromhex(record["head"][7:]) + line)
        elif kind not in PLAIN_KINDS:
            return "unknown_kind"
        if record["run"] != self.run:
            return "other_run"
        if int(record["seq"]) != due:
            return "gap"
        return unsigned or (self.check_envelope(record, role, before) if kind in KINDS else None)

    def signer(self, line, record):
        """Whose key signed an envelope, and what is wrong with that."""
        role = next((r for r, key in self.published.items() if digest(sha(key)) == record["key"] and key in self.trusted), None)
        if not role:
            return None, "unknown_key"
        if not record.get("sig"):
            return role, "signature_missing"
        try:
            signature = base64.b64decode(record["sig"], validate=True)
        except ValueError:
            return role, "signature_invalid"
        if len(signature) != 64 or base64.b64encode(signature).decode() != record["sig"]:
            return role, "signature_invalid"
        return role, None if verify(self.published[role], signature, line[:-104] + line[-7:]) else "signature_invalid"

    def check_envelope(self, record, role, before):
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
        for reference in references(record):
            self.blobs.setdefault(reference, (self.seq, self.file))
        if record["kind"] in KINDS:
            self.prev = sha(line)
            self.envelopes += 1
            self.terminal = self.terminal or record["kind"] in TERMINAL

    def end(self, must_end):
        if must_end and not self.terminal:
            self.report("unterminated", 0)
        if self.after:
            self.report("tail_uncovered", self.after)


def check_blobs(folder, blobs, report):
    differ = []
    for (name, size), where in blobs.items():
        content = read(folder, "blobs/" + name[7:], MAX_BLOB)
        if content is None:
            report("blob_missing", *where)
        elif len(content) > MAX_BLOB or digest(sha(content)) != name or size not in (None, len(content)):
            differ.append(where)
    for where in differ:
        report("blob_mismatch", *where)


def check_files(folder, expected, report):
    found = []
    for where, folders, files in os.walk(folder):
        here = pathlib.Path(where)
        for name in list(folders):
            if here != folder or name not in ("base", "blobs", "keys") or (here / name).is_symlink():
                found.append((here / name).relative_to(folder))
                folders.remove(name)
        for name in files:
            path = (here / name).relative_to(folder)
            if not stat.S_ISREG(os.lstat(here / name).st_mode) or path.as_posix() not in expected:
                found.append(path)
    for path in sorted(found, key=lambda path: path.parts):
        report("file_unexpected", 0, path.as_posix())


def verify_export(folder, trusted, may_be_open, report):
    blobs, expected = {}, {"records.ndjson", "head.json"}
    journal = Journal(folder, "records.ndjson", trusted, blobs, report)
    journal.end(not may_be_open)
    run = json.dumps(journal.run or "", ensure_ascii=False)
    head = f'{{"envelopes":{journal.envelopes},"hash":"{digest(journal.head)}","run":{run},"seq":{journal.seq}}}'.encode()
    if read(folder, "head.json", len(head)) != head:
        report("truncated", journal.seq, "head.json")

    fork, seen = journal.fork, {journal.run}
    while fork and fork["run"] not in seen:
        seen.add(fork["run"])
        name = f"base/{fork['run']}.ndjson"
        expected.add(name)
        base = Journal(folder, name, trusted, blobs, report, fork["run"])
        base.end(False)
        if (base.seq, digest(base.head)) != (int(fork["seq"]), fork["hash"]):
            report("truncated", base.seq, name)
        fork = base.fork

    for role, key in journal.published.items():
        name, content = f"keys/{role}.pub", key.hex().encode() + b"\n"
        expected.add(name)
        if read(folder, name, len(content)) != content:
            report("unknown_key", 0, name)
    check_blobs(folder, blobs, report)
    check_files(folder, expected | {"blobs/" + name[7:] for name, _ in blobs}, report)


def main(arguments):
    may_be_open = "--open" in arguments
    keys, *exports = [a for a in arguments if a != "--open"]
    trusted = {bytes.fromhex(f.read_text().strip()) for f in pathlib.Path(keys).glob("*.pub")}
    total = 0
    for export in exports:
        faults = []
        verify_export(pathlib.Path(export), trusted, may_be_open, lambda *fault: faults.append(fault))
        for fault in faults:
            print(export, *fault, sep="\t")
        if not faults:
            print(export, "ok", sep="\t")
        total += len(faults)
    return 6 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
