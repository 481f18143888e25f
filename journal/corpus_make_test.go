package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write corpus/index.json and corpus/exports/odd anew")

// oddRun is a whole journal of rare things that are no fault.
func oddRun(t testing.TB) (*book, *library) {
	b, l := newBook(t, otherRun), newLibrary()
	ref := func(payload string) string {
		h, _ := l.put([]byte(payload))
		return string(reference{h, int64(len(payload))}.append(nil))
	}
	nowhere := Sum([]byte("nowhere")).String() // a digest that names nothing where it stands
	b.begin(l, "")
	b.plain("plan.step", "root/a", `{ "a":1, "a":"\ud800", "\udc00":[1.0, 1e3, -0] }`)
	b.plain("effect.finished", "root/b", fmt.Sprintf(`{"value":%s,"value":%s}`, ref(`{"$blob":1}`), ref(`{"$blob":2}`)))
	b.plain("effect.finished", "root/c", `{"value":`+text(MaxInline+1)+`}`)
	b.plain("draft.updated", "", fmt.Sprintf(`{"program_digest":%q,"skill_digest":%q,"frozen":{"tools":%q},"outputs_digest":%q,"keep":[%q]}`,
		l.document(`{"a":"program"}`), l.document(`{"a":"skill"}`), l.document(`{"a":"tools"}`), nowhere, nowhere))
	b.plain("run.correction_requested", "", `{"program_digest":"none","frozen":{"tools":7}}`)
	b.plain("run.continued", "", fmt.Sprintf(`{"keep":[%q,5,%q],"program_digest":%q,"state":{}}`, l.document(`"kept"`), l.document(`"kept too"`), nowhere))
	b.note("worker.event", "root/d", ref(`{"\u0024blob":3}`))
	b.plain("effect.failed", "root/d", fmt.Sprintf(`{"err\u006fr":{"detail":%s},"attempt":1}`, ref(`{"$blob":{}}`)))
	b.plain("plan.output", "root/d", `"a body that is no object"`)
	b.plain("run.parked", "", fmt.Sprintf(`{"keep":[%q],"subject":{"$blob":1}}`, nowhere))
	b.plain("effect.finished", "root/media", fmt.Sprintf(`{"keep":[%q,7,"none",%q],"program_digest":%q}`, l.document(`"an image"`), l.document(`"a sound"`), nowhere))
	b.end(l)
	return b, l
}

// Places in corpus/exports. plan has envelopes at 1, 2, 3, 4, 9, 11 and 18.
const (
	rec       = recordsFile
	planBase  = "base/01M7HTNS202S71RMZGYRWGKH3X.ndjson" // of fork
	manifest  = "blobs/e270b4a45ec516dd2eac5a2c9f138141bc17c3be78ea3fe2286cd5628a5b8df6"
	tools     = "blobs/109bac7092e63218b24dbc10291ab2949e40802895f080ffea881b0a46eb8c4e"
	program   = "blobs/c50d910cc6ac5a1a308ec2203f4cc39ad4fae8b0be32dda7783dbedc3397708f"
	outputs   = "blobs/6a5b2d76627454a229f8d072301844b85921c68bc248b0d6c972b079690a8b05"
	corrected = "blobs/4b0769e864fcb7c305a5519a71a33363ad4a8acc4faed067a7975b2dfc2cc7ec"
	smallBlob = "blobs/75d514aad39461f367dda072009357d93c1dfd2b795f38d1ca7a7d367bdc9e46" // of blobs, record 7
)

// maker writes index.json. What the cases expect is written here by hand, from
// README.md.
type maker struct {
	t              testing.TB
	user, executor *PrivateKey
	stranger       *PrivateKey
	cases          []corpusCase
}

func (m *maker) add(export, name, rule string, faults []finding, changes ...change) *corpusCase {
	c := corpusCase{Name: name, Rule: rule, Export: export, Changes: changes, Faults: faults, Exit: 6}
	if len(faults) == 0 {
		c.Faults, c.Exit = []finding{}, 0
	}
	m.cases = append(m.cases, c)
	return &m.cases[len(m.cases)-1]
}

func (m *maker) line(export, file string, n int) []byte {
	return bytes.Split(m.file(export, file), []byte("\n"))[n-1]
}

func (m *maker) file(export, name string) []byte {
	b, err := os.ReadFile(filepath.Join("corpus/exports", export, filepath.FromSlash(name)))
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

// signed is line n of an export with another content and a signature that fits.
func (m *maker) signed(export string, n int, key *PrivateKey, edit func(*Record)) change {
	r, err := Parse(m.line(export, rec, n))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Body = bytes.Clone(r.Body)
	edit(&r)
	r.Key = ""
	return change{Op: "line", File: rec, Line: n, Text: string((&book{}).sign(key, r))}
}

// body edits a record's body.
func (m *maker) body(old, with string) func(*Record) {
	return func(r *Record) { r.Body = replaceIn(m.t, r.Body, old, with) }
}

// rehashed is head.json for the records that changes leave.
func (m *maker) rehashed(export string, changes ...change) change {
	c := corpusCase{Export: export, Changes: changes}
	s := summary{}
	for b, err := range lines(c.made(m.t), rec) {
		if err != nil {
			m.t.Fatal(err)
		}
		s.run = or(s.run, s.add(b).Run)
	}
	return change{Op: "write", File: headFile, Text: string(s.headJSON())}
}

func swap(line int, old, with string) change {
	return change{Op: "replace", File: rec, Line: line, Old: old, New: with}
}

func in(file string, c change) change {
	c.File = file
	return c
}

// at lists faults of records.ndjson: codes and seqs by turns.
func at(pairs ...any) (found []finding) {
	for i := 0; i < len(pairs); i += 2 {
		found = append(found, finding{pairs[i].(FaultCode), int64(pairs[i+1].(int)), rec})
	}
	return found
}

// also appends a fault of another file.
func also(found []finding, code FaultCode, seq int64, file string) []finding {
	return append(slices.Clone(found), finding{code, seq, file})
}

func headAt(found []finding, seq int64) []finding { return also(found, ErrTruncated, seq, headFile) }

func (m *maker) make() []corpusCase {
	for _, export := range []string{"plan", "pipeline", "fork", "blobs", "draft", "correction", "odd"} {
		m.add(export, "whole-"+export, "Export", nil)
	}
	m.malformed()
	m.canonical()
	m.order()
	m.signatures()
	m.principals()
	m.chain()
	m.ends()
	m.blobs()
	m.files()
	m.others()
	return m.cases
}

// TestCorpusIsCurrent: index.json is what the cases here give. With -update it is
// written.
func TestCorpusIsCurrent(t *testing.T) {
	b, l := oddRun(t)
	dir := filepath.Join(t.TempDir(), "odd")
	if err := Export(dir, l.source(b.run)); err != nil {
		t.Fatal(err)
	}
	const odd = "corpus/exports/odd"
	if *update {
		if err := errors.Join(os.RemoveAll(odd), os.CopyFS(odd, os.DirFS(dir))); err != nil {
			t.Fatal(err)
		}
	}
	sameTree(t, odd, dir)

	m := maker{t: t, user: testKey(t, 1), executor: testKey(t, 2), stranger: testKey(t, 9)}
	var want bytes.Buffer
	for i, c := range m.make() {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%s%s", map[bool]string{true: "[\n", false: ",\n"}[i == 0], line)
	}
	want.WriteString("\n]\n")
	if *update {
		if err := os.WriteFile("corpus/index.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("corpus/index.json"); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("corpus/index.json is not what the cases here give (%v): go test ./journal -run Corpus -update", err)
	}
}
