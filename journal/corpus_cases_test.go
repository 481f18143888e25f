package journal

import (
	"slices"
	"strings"
	"testing"
)

// The cases of the corpus, with what README.md says must be found in each.

func (m *maker) malformed() {
	both := at(ErrMalformed, 6, ErrHead, 9) // record 6 is plain; 9 is the next envelope
	m.add("plan", "no-object", "malformed", both, swap(6, `{"at"`, `["at"`))
	m.add("plan", "two-objects", "malformed", both, swap(6, `"v":1}`, `"v":1}{}`))
	m.add("plan", "space-outside-body", "malformed", both, swap(6, `,"seq"`, `, "seq"`))
	m.add("plan", "members-out-of-order", "malformed", both, swap(6, `"seq":6,"v":1`, `"v":1,"seq":6`))
	m.add("plan", "member-twice", "malformed", both, swap(6, `"seq":6`, `"seq":6,"seq":6`))
	m.add("plan", "member-unknown", "malformed", both, swap(6, `"v":1}`, `"v":1,"w":1}`))
	m.add("plan", "sig-on-plain-record", "malformed", both, swap(6, `"v":1}`, `"sig":"","v":1}`))
	m.add("plan", "seq-is-zero", "malformed", both, swap(6, `"seq":6`, `"seq":0`))
	m.add("plan", "note-is-false", "malformed", both, swap(6, `"path":"root/read"`, `"note":false,"path":"root/read"`))
	m.add("plan", "time-without-nanoseconds", "malformed", both, swap(6, `039889186Z`, `039Z`))
	m.add("plan", "path-in-another-spelling", "malformed", both, swap(6, `"root/read"`, `"root\/read"`))
	m.add("plan", "v-is-text", "malformed", both, swap(6, `"v":1`, `"v":"1"`))
	m.add("plan", "not-utf8", "malformed", both, change{Op: "replace", File: rec, Line: 6, Old: "in.txt", Hex: "ff"})
	m.add("plan", "NaN", "malformed", both, swap(6, `"attempt":1`, `"attempt":NaN`))
	m.add("plan", "empty-line", "malformed; the record after it has the seq that is past", at(ErrMalformed, 6, ErrGap, 6, ErrHead, 9), change{Op: "insert", File: rec, Line: 6})
	m.add("plan", "epoch-on-envelope", "malformed; such an envelope does not count as the previous one", headAt(at(ErrMalformed, 3, ErrPrev, 4), 18), swap(3, `,"from"`, `,"epoch":1,"from"`))

	lost := at(ErrMalformed, 18, ErrUnterminated, 0)
	size := int64(len(m.file("plan", rec)))
	m.add("plan", "no-last-line-feed", "malformed", also(headAt(lost, 18), ErrFileUnexpected, 0, outputs), change{Op: "size", File: rec, Size: size - 1})
	m.add("plan", "line-too-long", "Export: a line has at most 64 MiB", headAt(at(ErrMalformed, 19, ErrTailUncovered, 19), 19), change{Op: "size", File: rec, Size: size + MaxRecord + 1})

	m.add("plan", "version-2", "version", at(ErrVersion, 6, ErrHead, 9), swap(6, `"v":1}`, `"v":2}`))
	m.add("plan", "version-1.0", "version", at(ErrVersion, 6, ErrHead, 9), swap(6, `"v":1}`, `"v":1.0}`))
	m.add("plan", "path-missing", "field_missing", at(ErrFieldMissing, 6, ErrHead, 9), swap(6, `"path":"root/read",`, ``))
	m.add("plan", "path-missing-in-version-2", "version comes before field_missing", at(ErrVersion, 6, ErrHead, 9), swap(6, `"path":"root/read",`, ``), swap(6, `"v":1}`, `"v":2}`))
	m.add("plan", "from-missing", "field_missing; such an envelope does not count", headAt(at(ErrFieldMissing, 9, ErrPrev, 11), 18), swap(9, `"from":"executor",`, ``))
	m.add("plan", "kind-missing", "Record: without kind no member is foreign and the body is free", at(ErrFieldMissing, 6, ErrHead, 9),
		swap(6, `"kind":"effect.intended",`, ``), swap(6, `"v":1}`, `"sig":"","v":1}`), swap(6, `"input":{`, `"input":{"$blob":1,`))
	m.add("plan", "empty-object", "field_missing; without a seq it counts as the one that is due", at(ErrFieldMissing, 6, ErrHead, 9), change{Op: "line", File: rec, Line: 6, Text: "{}"})
	m.add("plan", "kind-unknown", "unknown_kind", at(ErrUnknownKind, 6, ErrHead, 9), swap(6, "effect.intended", "effect.imagined"))
}

// canonical has signed envelopes whose body is another spelling of the same.
func (m *maker) canonical() {
	faults := headAt(at(ErrMalformed, 9, ErrPrev, 11), 18)
	resigned := func(old, with string) change { return m.signed("plan", 9, m.executor, m.body(old, with)) }
	subject := func(with string) change { return resigned(`"subject":{}`, `"subject":`+with) }
	for _, c := range []struct {
		name string
		with change
	}{
		{"unsorted", resigned(`"actions":["approve","deny"],"deny":"deny"`, `"deny":"deny","actions":["approve","deny"]`)},
		{"space", resigned(`"deny":"deny"`, `"deny": "deny"`)},
		{"name-twice", resigned(`"deny":"deny"`, `"deny":"deny","deny":"deny"`)},
		{"name-twice-inside", subject(`{"a":1,"a":1}`)},
		{"escape", resigned(`Copy it?`, `\u0043opy it?`)},
		{"lone-surrogate", resigned(`Copy it?`, `\ud800`)},
		{"fraction", subject(`{"n":1.0}`)},
		{"exponent", subject(`{"n":1e3}`)},
		{"minus-zero", subject(`{"n":-0}`)},
		{"number-too-precise", subject(`{"n":9007199254740993}`)},
		{"number-too-large", subject(`{"n":1e400}`)},
		{"sorted-by-code-point", subject(`{"€":1,"ﬀ":2,"😀":3}`)},
	} {
		m.add("plan", "not-canonical-"+c.name, "Envelopes: not its own RFC 8785 form", faults, c.with)
	}
	m.add("plan", "canonical-numbers", "Envelopes: these are in RFC 8785 form; the next envelope names another hash", at(ErrPrev, 11),
		subject(`{"n":[1e+21,100000000000000000000,1e-7,0.000001,-1.5,123456789.125,5e-324,1.7976931348623157e+308,0]}`))
	m.add("plan", "canonical-names", "Envelopes: names are sorted by UTF-16", at(ErrPrev, 11), subject(`{"€":1,"😀":3,"ﬀ":2}`))

	// What looks like a reference.
	m.add("plan", "blob-no-reference", "References", at(ErrMalformed, 7, ErrHead, 9), swap(7, `"value":{`, `"value":{"$blob":1,`))
	m.add("plan", "blob-no-reference-escaped", "References: however the name is spelled", at(ErrMalformed, 7, ErrHead, 9), swap(7, `"value":{`, `"value":{"\u0024blob":1,`))
	m.add("plan", "blob-no-reference-in-envelope", "References", faults, subject(`{"$blob":"`+Sum(nil).String()+`","size":0}`))
	m.add("plan", "blob-in-no-payload", "References: only in a payload's place", at(ErrHead, 9), swap(7, `"value":{`, `"other":{"$blob":1},"value":{`))
	m.add("blobs", "reference-in-another-order", "References: exactly these bytes", also(at(ErrMalformed, 7, ErrHead, 15), ErrFileUnexpected, 0, smallBlob),
		swap(7, `{"$blob":"sha256:75d514aad39461f367dda072009357d93c1dfd2b795f38d1ca7a7d367bdc9e46","size":24}`,
			`{"size":24,"$blob":"sha256:75d514aad39461f367dda072009357d93c1dfd2b795f38d1ca7a7d367bdc9e46"}`))
}

func (m *maker) order() {
	m.add("plan", "other-run", "other_run", at(ErrOtherRun, 6, ErrHead, 9), swap(6, "01M7HTNS202S71RMZGYRWGKH3X", otherRun))
	m.add("plan", "envelope-of-another-run", "other_run; it does not settle the chain, but counts as the previous envelope", headAt(at(ErrOtherRun, 7, ErrGap, 5, ErrPrev, 9), 18),
		change{Op: "insert", File: rec, Line: 5, Text: string(m.line("fork", rec, 7))})
	foreign := change{Op: "insert", File: rec, Line: 19, Text: string(m.line("fork", rec, 7))}
	m.add("plan", "envelope-of-another-run-at-the-end", "the chain goes on from an envelope of this run alone", at(ErrOtherRun, 7, ErrTailUncovered, 7), foreign, m.rehashed("plan", foreign))
	m.add("plan", "record-deleted", "gap names the seq that is there", at(ErrGap, 7, ErrHead, 9), change{Op: "delete", File: rec, Line: 6})
	m.add("plan", "record-twice", "gap", at(ErrGap, 6, ErrHead, 9), change{Op: "insert", File: rec, Line: 6, Text: string(m.line("plan", rec, 6))})
	m.add("plan", "records-swapped", "gap: due are 6, 8 and 7", at(ErrGap, 7, ErrGap, 6, ErrGap, 8, ErrHead, 9),
		change{Op: "delete", File: rec, Line: 6}, change{Op: "insert", File: rec, Line: 7, Text: string(m.line("plan", rec, 6))})
	m.add("plan", "seq-too-high", "gap: due are 6, then 61", at(ErrGap, 60, ErrGap, 7, ErrHead, 9), swap(6, `"seq":6`, `"seq":60`))
	m.add("plan", "envelope-deleted", "gap, then prev", headAt(at(ErrGap, 10, ErrPrev, 11), 18), change{Op: "delete", File: rec, Line: 9})
}

func (m *maker) signatures() {
	all := []any{}
	for _, seq := range []int{1, 2, 3, 4, 9, 11, 18} {
		all = append(all, ErrUnknownKey, seq)
	}
	m.add("plan", "keys-not-trusted", "unknown_key: the journal's own keys are not believed", at(all...)).Keys = "other"
	m.add("plan", "signed-by-a-stranger", "unknown_key", headAt(at(ErrUnknownKey, 18), 18), m.signed("plan", 18, m.stranger, func(*Record) {}))

	// Without a draft nobody has published a key, and no key has a file.
	orphans := func(found []finding) []finding {
		for _, file := range []string{tools, manifest, "keys/executor.pub", "keys/user.pub"} {
			found = also(found, ErrFileUnexpected, 0, file)
		}
		return found
	}
	m.add("plan", "draft-unreadable", "Keys: no readable draft, no key, no key file", orphans(headAt(at(append([]any{ErrMalformed, 1}, all[2:]...)...), 18)), swap(1, `{"at"`, `["at"`))
	m.add("plan", "draft-deleted", "gap comes before unknown_key", orphans(headAt(at(append([]any{ErrGap, 2}, all[4:]...)...), 18)), change{Op: "delete", File: rec, Line: 1})
	half := also(at(ErrBody, 1, ErrPrev, 2, ErrUnknownKey, 3, ErrUnknownKey, 11), ErrFileUnexpected, 0, "keys/user.pub")
	key := m.user.Public().String()
	m.add("plan", "draft-with-one-key", "Keys: each key that is well-formed is published", half, m.signed("plan", 1, m.executor, m.body(key, strings.ToUpper(key))))
	m.add("plan", "draft-with-a-zero-key", "Bodies: a key is not all 0", half, m.signed("plan", 1, m.executor, m.body(key, strings.Repeat("0", 64))))
	m.add("plan", "draft-with-equal-keys", "Keys: a key that is both is the user's", also(at(ErrWrongPrincipal, 1, ErrWrongPrincipal, 2, ErrUnknownKey, 3,
		ErrWrongPrincipal, 4, ErrWrongPrincipal, 9, ErrUnknownKey, 11, ErrWrongPrincipal, 18), ErrUnknownKey, 0, "keys/user.pub"),
		m.signed("plan", 1, m.executor, m.body(key, m.executor.Public().String())))

	m.add("plan", "sig-missing", "signature_missing", headAt(at(ErrSignatureMissing, 18), 18), change{Op: "line", File: rec, Line: 18, Text: m.withSig(18, "")})
	m.add("plan", "sig-empty", "signature_missing", headAt(at(ErrSignatureMissing, 18), 18), change{Op: "line", File: rec, Line: 18, Text: m.withSig(18, `"sig":"",`)})
	m.add("plan", "sig-too-short", "signature_invalid", headAt(at(ErrSignatureInvalid, 18), 18), swap(18, `==","v":1}`, `","v":1}`))
	m.add("plan", "sig-with-spare-bits", "signature_invalid: one spelling", headAt(at(ErrSignatureInvalid, 18), 18),
		change{Op: "line", File: rec, Line: 18, Text: string(withSpareBits(m.t.(*testing.T), m.line("plan", rec, 18)))})
	m.add("plan", "sig-of-other-bytes", "signature_invalid; the next envelope names another hash", at(ErrSignatureInvalid, 11, ErrPrev, 18), swap(11, `"approve"`, `"deny"`))
}

// withSig is line n of plan with another member sig.
func (m *maker) withSig(n int, member string) string {
	b := string(m.line("plan", rec, n))
	return b[:len(b)-tailLen+1] + member + b[len(b)-len(recordEnd)+1:]
}

func (m *maker) principals() {
	accept := func(key *PrivateKey, from, more string) change {
		return m.signed("plan", 3, key, func(r *Record) {
			r.From = from
			r.Body = replaceIn(m.t, r.Body, `,"program_digest"`, more+`,"program_digest"`)
		})
	}
	wrong, body := at(ErrWrongPrincipal, 3, ErrPrev, 4), at(ErrBody, 3, ErrPrev, 4)
	m.add("plan", "accepted-by-the-executor", "Principals", wrong, accept(m.executor, Executor, ``))
	m.add("plan", "accepted-for-nobody", "Principals: an empty on_behalf_of names nobody", wrong, accept(m.executor, Executor, `,"on_behalf_of":""`))
	m.add("plan", "accepted-for-a-number", "Principals: on_behalf_of that is no string names nobody", wrong, accept(m.executor, Executor, `,"on_behalf_of":7`))
	m.add("plan", "accepted-for-someone", "Principals; the next envelope names another hash", at(ErrPrev, 4), accept(m.executor, Executor, `,"on_behalf_of":"token:alice"`))
	m.add("plan", "user-for-nobody", "Principals: elsewhere it is body", body, accept(m.user, User, `,"on_behalf_of":""`))
	m.add("plan", "user-for-someone", "Principals", wrong, accept(m.user, User, `,"on_behalf_of":"token:alice"`))
	m.add("plan", "executor-says-user", "Principals: from tells whose key it is", wrong, accept(m.executor, User, ``))
	m.add("plan", "user-asks", "Principals: the user signs the user's kinds only", at(ErrWrongPrincipal, 9, ErrPrev, 11), m.signed("plan", 9, m.user, func(r *Record) { r.From = User }))
	m.add("correction", "corrected-for-nobody", "Principals: elsewhere it is body", at(ErrBody, 14, ErrPrev, 17),
		m.signed("correction", 14, m.executor, m.body(`"local:cli"`, `""`)))
	m.add("plan", "field-unknown", "Bodies", at(ErrBody, 11, ErrPrev, 18), m.signed("plan", 11, m.user, m.body(`"via":"command"`, `"via":"command","wia":1`)))
	m.add("plan", "field-missing", "Bodies", at(ErrBody, 11, ErrPrev, 18), m.signed("plan", 11, m.user, m.body(`,"via":"command"`, ``)))
	m.add("plan", "body-no-object", "Bodies", at(ErrBody, 11, ErrPrev, 18), m.signed("plan", 11, m.user, func(r *Record) { r.Body = []byte(`[]`) }))
}

func (m *maker) chain() {
	m.add("plan", "plain-record-changed", "head, once: the change lies between 4 and 9", at(ErrHead, 9), swap(5, `"kind":"foreground"`, `"kind":"background"`))
	m.add("plan", "two-plain-records-changed", "head, once for each stretch", at(ErrHead, 9, ErrHead, 11), swap(5, `"kind":"foreground"`, `"kind":"background"`), swap(10, `"wall_ms":10`, `"wall_ms":11`))
	changed := swap(5, `"kind":"foreground"`, `"kind":"background"`)
	m.add("plan", "changed-and-head-rewritten", "head.json is compared with the chain as it was signed", headAt(at(ErrHead, 9), 18), changed, m.rehashed("plan", changed))
	m.add("plan", "signed-over-another-chain", "head; the chain goes on from what is signed", headAt(at(ErrHead, 18), 18), m.signed("plan", 18, m.executor, func(r *Record) { r.Head = Hash{}.String() }))
	m.add("plan", "signed-over-no-chain", "head; what is no digest settles nothing", headAt(at(ErrHead, 18), 18), m.signed("plan", 18, m.executor, func(r *Record) { r.Head = "none" }))
	m.add("plan", "signed-after-another-envelope", "prev", headAt(at(ErrPrev, 18), 18), m.signed("plan", 18, m.executor, func(r *Record) { r.Prev = Hash{}.String() }))
	m.add("fork", "base-changed", "a base is a journal of its own", []finding{{ErrHead, 9, planBase}}, in(planBase, swap(5, `"kind":"foreground"`, `"kind":"background"`)))
	m.add("fork", "base-tail-changed", "truncated: no envelope of the base covers it, fork_of does", []finding{{ErrTruncated, 10, planBase}}, in(planBase, swap(10, `"wall_ms":10`, `"wall_ms":11`)))
	m.add("fork", "base-cut", "truncated", []finding{{ErrTruncated, 9, planBase}}, change{Op: "cut", File: planBase, Line: 10})
	m.add("fork", "base-longer", "truncated", []finding{{ErrTruncated, 11, planBase}}, change{Op: "insert", File: planBase, Line: 11, Text: string(m.line("plan", rec, 11))})
	m.add("fork", "base-missing", "a missing file is an empty one", []finding{{ErrTruncated, 0, planBase}}, change{Op: "remove", File: planBase})
	m.add("fork", "base-of-another-run", "other_run", []finding{{ErrOtherRun, 5, planBase}, {ErrHead, 9, planBase}}, in(planBase, swap(5, "01M7HTNS202S71RMZGYRWGKH3X", otherRun)))
}

func (m *maker) ends() {
	cut := change{Op: "cut", File: rec, Line: 18}
	gone := change{Op: "remove", File: outputs}
	m.add("plan", "cut", "unterminated, truncated", also(headAt(at(ErrUnterminated, 0), 17), ErrFileUnexpected, 0, outputs), cut)
	m.add("plan", "cut-and-head-rewritten", "unterminated", at(ErrUnterminated, 0), cut, gone, m.rehashed("plan", cut))
	m.add("plan", "cut-and-open", "nothing shows that the end of an open run is missing", nil, cut, gone, m.rehashed("plan", cut)).Open = true
	plain := change{Op: "insert", File: rec, Line: 19, Text: string(replaceIn(m.t, m.line("plan", rec, 17), `"seq":17`, `"seq":19`))}
	m.add("plan", "record-after-the-end", "tail_uncovered", at(ErrTailUncovered, 19), plain, m.rehashed("plan", plain))

	more := m.signed("plan", 9, m.executor, func(r *Record) {
		var head Hash
		for n := range 18 {
			head = head.Next(m.line("plan", rec, n+1))
		}
		r.Seq, r.Head, r.Prev = 19, head.String(), Sum(m.line("plan", rec, 18)).String()
	})
	more.Op, more.Line = "insert", 19
	m.add("plan", "envelope-after-the-end", "tail_uncovered: an envelope may not follow either", at(ErrTailUncovered, 19), more, m.rehashed("plan", more))
	last := change{Op: "insert", File: rec, Line: 20, Text: strings.Replace(plain.Text, `"seq":19`, `"seq":20`, 1)}
	m.add("plan", "two-records-after-the-end", "tail_uncovered names the first", at(ErrTailUncovered, 19), more, last, m.rehashed("plan", more, last))

	m.add("plan", "records-missing", "a missing records.ndjson is an empty one", m.everything(headAt(at(ErrUnterminated, 0), 0)), change{Op: "remove", File: rec})
	m.add("plan", "head-missing", "truncated", headAt(nil, 18), change{Op: "remove", File: headFile})
	m.add("plan", "head-with-line-feed", "truncated: byte for byte", headAt(nil, 18), change{Op: "replace", File: headFile, Line: 1, Old: "}", New: "}\n"})
	m.add("plan", "head-with-another-count", "truncated", headAt(nil, 18), change{Op: "replace", File: headFile, Line: 1, Old: `"envelopes":7`, New: `"envelopes":8`})
}

// everything: no record accounts for any file.
func (m *maker) everything(found []finding) []finding {
	for _, file := range []string{tools, outputs, program, manifest, "keys/executor.pub", "keys/user.pub"} {
		found = also(found, ErrFileUnexpected, 0, file)
	}
	return found
}

func (m *maker) blobs() {
	write := func(file, text string) change { return change{Op: "write", File: file, Text: text} }
	m.add("plan", "outputs-missing", "blob_missing", at(ErrBlobMissing, 18), change{Op: "remove", File: outputs})
	m.add("plan", "program-missing", "the first record that names it", at(ErrBlobMissing, 1), change{Op: "remove", File: program})
	m.add("plan", "outputs-changed", "blob_mismatch", at(ErrBlobMismatch, 18), write(outputs, `{}`))
	m.add("plan", "blob-too-long", "no blob is longer than 16 MiB", at(ErrBlobMismatch, 18), change{Op: "size", File: outputs, Size: MaxPayload + 1})
	m.add("plan", "blobs-missing-and-changed", "those that are missing come first", at(ErrBlobMissing, 18, ErrBlobMismatch, 1), write(manifest, `{}`), change{Op: "remove", File: outputs})
	m.add("blobs", "size-changed", "blob_mismatch: another length than size says", at(ErrHead, 15, ErrBlobMismatch, 7), swap(7, `"size":24}`, `"size":25}`))
	m.add("blobs", "payload-missing", "References", at(ErrBlobMissing, 7), change{Op: "remove", File: smallBlob})
	m.add("correction", "corrected-program-missing", "Documents: run.correction_requested", at(ErrBlobMissing, 11), change{Op: "remove", File: corrected})
	for _, c := range []struct {
		name, rule, content string
		seq                 int
	}{
		{"first-of-repeated", "Record: every member of that name", `{"$blob":1}`, 7},
		{"second-of-repeated", "Record: every member of that name", `{"$blob":2}`, 7},
		{"draft-program", "Documents: draft.updated", `{"a":"program"}`, 9},
		{"draft-skill", "Documents: draft.updated", `{"a":"skill"}`, 9},
		{"draft-frozen", "Documents: draft.updated", `{"a":"tools"}`, 9},
		{"kept", "Documents: run.continued", `"kept too"`, 11},
		{"note", "References: the whole body of a note", `{"\u0024blob":3}`, 12},
		{"detail", "References: detail inside error, decoded names", `{"$blob":{}}`, 13},
		{"media", "Documents: effect.finished", `"an image"`, 16},
	} {
		m.add("odd", "missing-"+c.name, c.rule, at(ErrBlobMissing, c.seq), change{Op: "remove", File: "blobs/" + Sum([]byte(c.content)).Hex()})
	}
}

func (m *maker) files() {
	unexpected := func(files ...string) (found []finding) {
		for _, f := range files {
			found = also(found, ErrFileUnexpected, 0, f)
		}
		return found
	}
	with := func(found []finding, files ...string) []finding {
		return append(slices.Clone(found), unexpected(files...)...)
	}
	link := func(file, to string) change { return change{Op: "link", File: file, To: to} }
	remove := func(file string) change { return change{Op: "remove", File: file} }
	m.add("plan", "file-added", "file_unexpected", unexpected("notes.txt"), change{Op: "write", File: "notes.txt", Text: "x"})
	m.add("plan", "folder-added", "one fault, whatever is in it", unexpected("more"), change{Op: "write", File: "more/a", Text: "x"}, change{Op: "write", File: "more/b", Text: "x"})
	m.add("plan", "files-added", "in the order of their names", unexpected("base/x", "blobs/x", "keys/x", "z"), change{Op: "write", File: "z"},
		change{Op: "write", File: "keys/x"}, change{Op: "write", File: "blobs/x"}, change{Op: "write", File: "base/x"})
	m.add("plan", "key-changed", "unknown_key: differs from intent.draft", []finding{{ErrUnknownKey, 0, "keys/user.pub"}}, change{Op: "write", File: "keys/user.pub", Text: m.stranger.Public().String() + "\n"})
	m.add("plan", "keys-missing", "unknown_key, the user's first", []finding{{ErrUnknownKey, 0, "keys/user.pub"}, {ErrUnknownKey, 0, "keys/executor.pub"}}, remove("keys/executor.pub"), remove("keys/user.pub"))
	m.add("plan", "key-without-line-feed", "unknown_key", []finding{{ErrUnknownKey, 0, "keys/user.pub"}}, change{Op: "write", File: "keys/user.pub", Text: m.user.Public().String()})

	m.add("plan", "blob-is-a-link", "a link counts as missing", with(at(ErrBlobMissing, 18), "a", outputs), change{Op: "move", File: outputs, To: "a"}, link(outputs, "../a"))
	m.add("plan", "blobs-is-a-link", "no folder is a link", with(at(ErrBlobMissing, 1, ErrBlobMissing, 1, ErrBlobMissing, 1, ErrBlobMissing, 18), "blobs", "elsewhere"),
		change{Op: "move", File: "blobs", To: "elsewhere"}, link("blobs", "elsewhere"))
	m.add("plan", "head-is-a-link", "a link counts as missing", with(headAt(nil, 18), "a", headFile), change{Op: "move", File: headFile, To: "a"}, link(headFile, "a"))
	m.add("plan", "head-is-a-pipe", "a pipe is not opened", with(headAt(nil, 18), headFile), remove(headFile), change{Op: "fifo", File: headFile})
	m.add("plan", "records-is-a-pipe", "a pipe is not opened", with(m.everything(headAt(at(ErrUnterminated, 0), 0)), rec), remove(rec), change{Op: "fifo", File: rec})
	m.add("plan", "key-is-a-pipe", "a pipe is not opened", with([]finding{{ErrUnknownKey, 0, "keys/user.pub"}}, "keys/user.pub"), remove("keys/user.pub"), change{Op: "fifo", File: "keys/user.pub"})
	m.add("plan", "head-is-a-folder", "a folder is no file", with(headAt(nil, 18), headFile), remove(headFile), change{Op: "write", File: headFile + "/x"})
	m.add("fork", "base-is-a-link", "a link counts as missing", with([]finding{{ErrTruncated, 0, planBase}}, "a", planBase), change{Op: "move", File: planBase, To: "a"}, link(planBase, "../a"))
}

// others are what a verifier of exports does not meet.
func (m *maker) others() {
	c := m.add("plan", "stored-record-changed", "hash: the chain goes on from the stored one", []finding{{ErrHash, 6, ""}}, swap(6, "in.txt", "on.txt"))
	c.Needs, c.State = "store", "completed"
	c = m.add("plan", "stored-state", "state_mismatch", []finding{{ErrStateMismatch, 0, ""}})
	c.Needs, c.State = "store", "failed"
	gate := "000009-policy.gate.json"
	m.add("plan", "envelope-file-changed", "projection_mismatch", []finding{{ErrProjectionMismatch, 0, gate}}, change{Op: "replace", File: gate, Line: 1, Old: "{", New: "{ "}).Needs = "files"
	m.add("plan", "envelope-file-missing", "Envelope files: a missing one can be written again", nil, change{Op: "remove", File: gate}).Needs = "files"
	c = m.add("", "write-unsafe-number", "a number that RFC 8785 would change", []finding{{ErrNumberUnsafe, 0, ""}})
	c.Needs, c.Body, c.Exit = "writer", `{"n":9007199254740993}`, 0
	c = m.add("", "write-large-payload", "no payload is longer than 16 MiB", []finding{{ErrTooLarge, 0, ""}})
	c.Needs, c.Value, c.Exit = "writer", MaxPayload+1, 0
}
