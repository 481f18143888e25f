"""Chain and signatures of an export, and nothing else: core.py KEYS EXPORT exits 0 if they hold."""
import base64
import hashlib
import json
import pathlib
import sys

from ed25519 import verify

keys, export = map(pathlib.Path, sys.argv[1:])
trusted = {bytes.fromhex(f.read_text().strip()) for f in keys.glob("*.pub")}
digest = lambda b: "sha256:" + b.hex()
sha = lambda b: hashlib.sha256(b).digest()
head, prev, run, published, covered = bytes(32), bytes(32), None, {}, False

lines = (export / "records.ndjson").read_bytes().split(b"\n")
assert lines.pop() == b"", "the last line is cut off"
for seq, line in enumerate(lines, 1):
    record = json.loads(line)
    run = run or record["run"]
    assert record["v"] == 1 and record["seq"] == seq and record["run"] == run, f"record {seq} is out of place"
    if record["kind"] == "intent.draft" and not published:
        found = map(bytes.fromhex, record["body"]["keys"].values())
        published = {digest(sha(key)): key for key in found if key in trusted}
    covered = "sig" in record
    if covered:
        assert record["head"] == digest(head), f"record {seq}: head"
        assert record["prev"] == digest(prev), f"record {seq}: prev"
        signature = base64.b64decode(record["sig"], validate=True)
        assert base64.b64encode(signature).decode() == record["sig"], f"record {seq}: another spelling"
        assert verify(published[record["key"]], signature, line[:-104] + line[-7:]), f"record {seq}: signature"
        prev = sha(line)
    head = sha(head + line)
assert covered, "records follow the last envelope"
want = json.loads((export / "head.json").read_bytes())
assert (want["run"], want["seq"], want["hash"]) == (run, len(lines), digest(head)), "the end was cut off"
