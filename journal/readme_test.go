package journal

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exampleRun is the run of README.md: draft, one step, failure. The keys are
// those of the seeds 01…01 and 02…02.
func exampleRun(t testing.TB) *book {
	b := newBook(t, testRun)
	b.seal("intent.draft", Executor, fmt.Sprintf(`{"program_kind":"plan","inputs":{},"bounds":{},"user":"local","origin":"cli",
		"keys":{"user":%q,"executor":%q},"frozen":{}}`, b.user.Public(), b.executor.Public()))
	b.plain("effect.finished", "root/read", `{"name":"tool.call","value":"hé","attempt":1}`)
	b.seal("intent.fail", Executor, `{"reason":"tool_error","message":"no such file","cited":[2],"evidence":{}}`)
	return b
}

func readme(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadmeExample(t *testing.T) {
	text := readme(t)
	var records [][]byte
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, `{"at":"20`) {
			records = append(records, []byte(strings.TrimSuffix(line, "\n")))
		}
	}
	b := exampleRun(t)
	if !slices.EqualFunc(records, b.records, bytes.Equal) {
		t.Fatalf("the records of README.md are not those that this package writes:\n%s", bytes.Join(b.records, []byte("\n")))
	}

	var trusted []PublicKey
	for _, m := range regexp.MustCompile(`(?m)^(?:user|executor) key: +([0-9a-f]{64})$`).FindAllStringSubmatch(text, -1) {
		key, err := ParsePublicKey(m[1])
		if err != nil {
			t.Fatal(err)
		}
		trusted = append(trusted, key)
	}
	res := verify(records, &Options{Trusted: trusted})
	if !res.OK() || res.Seq != 3 || res.Envelopes != 2 || res.Terminal != "intent.fail" {
		t.Errorf("the example does not verify: %+v", res)
	}

	want := []string{
		fmt.Sprintf("executor key id: %s", b.executor.Public().ID()),
		fmt.Sprintf("envelope 1:      %s", Sum(records[0])),
		string(headJSON(testRun, Head{Seq: 3, Hash: b.head}, 2)),
		fmt.Sprintf("signed bytes of record 3, SHA-256: %s", Sum(slices.Concat(records[2][:len(records[2])-104], records[2][len(records[2])-7:]))),
	}
	var h Hash
	for i, r := range records {
		h = h.Next(r)
		want = append(want, fmt.Sprintf("hash(%d):         %s", i+1, h))
	}
	for _, line := range want {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("README.md lacks the line\n%s", line)
		}
	}
}

// The table of envelopes in README.md is the table in body.go.
func TestReadmeTable(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\| (user|executor) \\| (.+) \\|$").FindAllStringSubmatch(readme(t), -1)
	if len(rows) != len(envelopes) {
		t.Fatalf("%d kinds in README.md, %d in the code", len(rows), len(envelopes))
	}
	for _, row := range rows {
		kind, by, fields := row[1], row[2], strings.ReplaceAll(row[3], "`", "")
		s := envelopes[kind]
		if s.by != by {
			t.Errorf("%s is by the %s, README.md says %s", kind, s.by, by)
		}
		if want := notation(s.fields); fields != want {
			t.Errorf("%s:\nREADME.md %s\ncode      %s", kind, fields, want)
		}
	}
}

// notation writes fields as README.md does.
func notation(fields []field) string {
	var out []string
	for _, f := range fields {
		s := f.name
		if f.list {
			s += "[]"
		}
		if f.optional {
			s += "?"
		}
		if f.fields != nil {
			s += "{" + notation(f.fields) + "}"
		}
		if f.typ != "" {
			s += ":" + f.typ
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// Every fault has its line in README.md, and in the order of the code.
func TestReadmeFaults(t *testing.T) {
	text := readme(t)
	at := 0
	for _, code := range []FaultCode{ErrMalformed, ErrVersion, ErrFieldMissing, ErrUnknownKind, ErrOtherRun, ErrGap, ErrHash, ErrUnknownKey,
		ErrSignatureMissing, ErrSignatureInvalid, ErrWrongPrincipal, ErrBody, ErrPrev, ErrHead, ErrUnterminated, ErrTailUncovered, ErrTruncated,
		ErrStateMismatch, ErrBlobMissing, ErrBlobMismatch, ErrFileUnexpected, ErrProjectionMismatch} {
		i := strings.Index(text[at:], fmt.Sprintf("\n| `%s` |", code))
		if i < 0 {
			t.Errorf("no line for %s, or out of order", code)
			continue
		}
		at += i
	}
}
