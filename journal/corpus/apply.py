"""Makes the exports of index.json: apply.py OUT writes each case that is one to OUT/<its name>. README.md says what the operations are."""
import json
import os
import pathlib
import shutil
import sys

here, out = pathlib.Path(__file__).parent, pathlib.Path(sys.argv[1])


def edit(change, lines):
    at, op, text = change["line"] - 1, change["op"], change.get("text", "").encode() + b"\n"
    if op == "replace":
        new = bytes.fromhex(change["hex"]) if "hex" in change else change.get("new", "").encode()
        lines[at] = lines[at].replace(change["old"].encode(), new, 1)
    elif op == "insert":
        lines.insert(at, text)
    else:
        lines[at:None if op == "cut" else at + 1] = [text] if op == "line" else []
    return lines


def apply(change, export):
    path, op = export / change["file"], change["op"]
    if op == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(change.get("text", "").encode())
    elif op == "remove":
        path.unlink()
    elif op == "move":
        path.rename(export / change["to"])
    elif op == "link":
        path.symlink_to(change["to"])
    elif op == "fifo":
        os.mkfifo(path)
    elif op == "size":
        os.truncate(path, change["size"])
    else:
        with open(path, "rb") as file:
            lines = file.readlines()
        path.write_bytes(b"".join(edit(change, lines)))


for case in json.loads((here / "index.json").read_text()):
    if "needs" not in case:
        shutil.copytree(here / "exports" / case["export"], out / case["name"])
        for change in case.get("changes", []):
            apply(change, out / case["name"])
