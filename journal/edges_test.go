package journal

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, s := range []string{"a", "z", "A", "Z", "0", "9", "-_", strings.Repeat("a", 128)} {
		if !isName(s) {
			t.Errorf("%q is no name", s)
		}
	}
	for _, s := range []string{"", "/", ":", "@", "[", "`", "{", "a/b", "..", "é", strings.Repeat("a", 129)} {
		if isName(s) {
			t.Errorf("%q is a name", s)
		}
	}
}

func TestStringValues(t *testing.T) {
	for v, want := range map[string]string{`""`: "", `"a"`: "a", `"\u0061"`: "a"} {
		if got, ok := stringValue([]byte(v)); !ok || got != want {
			t.Errorf("%s: %q, %v", v, got, ok)
		}
	}
	for _, v := range []string{``, `"`, `1`, `12`, `null`, `{"a":1}`} {
		if got, ok := stringValue([]byte(v)); ok || got != "" {
			t.Errorf("%s: %q, %v", v, got, ok)
		}
	}
}

func TestFaultsOfBodiesNameTheField(t *testing.T) {
	good := string(encode(t, bodyOf(t, "intent.clarify")["questions"].([]any)[0]))
	for body, want := range map[string]string{
		`{"gate":"g","round":1,"round":2}`:                                       "body_invalid: intent.clarify: field round stands twice",
		`{"gate":"g","round":1,"questions":[` + good + `,{"id":1}]}`:             "missing field questions[1].prompt",
		`{"gate":"g","round":1,"questions":[` + good + `,` + good + `,{"x":1}]}`: "unknown field questions[2].x",
		`{"gate":"g","round":1,"questions":{}}`:                                  "field questions is not a list",
		`[]`:                                                                     "the body is not an object",
	} {
		err := CheckBody("intent.clarify", []byte(body))
		if err == nil || !errors.Is(err, ErrBody) || !strings.HasSuffix(err.Error(), strings.TrimPrefix(want, "body_invalid: ")) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

func TestRefusalsOfPrincipalsSayWhy(t *testing.T) {
	for _, c := range []struct{ kind, from, body, want string }{
		{"intent.draft", User, `{}`, "intent.draft is the executor's, the user may not sign it"},
		{"intent.accept", User, `{"on_behalf_of":"x"}`, "intent.accept is signed by the user and yet on_behalf_of another"},
		{"intent.accept", Executor, `{}`, "intent.accept is the user's: the executor signs it only with on_behalf_of"},
		{"intent.accept", "nobody", `{}`, `from is "nobody", neither user nor executor`},
	} {
		r := Record{Kind: c.kind, From: c.from, Body: []byte(c.body)}
		if err := r.checkPrincipal(); !errors.Is(err, ErrWrongPrincipal) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestSignaturesAreSpelledInOneWay(t *testing.T) {
	b, _ := wholeRun(t)
	record := b.records[atAccept]
	r, err := Parse(record)
	if err != nil {
		t.Fatal(err)
	}
	key := b.user.Public()
	if err := checkSignature(record, r.Sig, key); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ sig, want string }{
		"too short":     {r.Sig[:84], "sig is not 88 characters of base64"},
		"a line feed":   {r.Sig[:87] + "\n", "sig is not 88 characters of base64"},
		"not base64":    {"!" + r.Sig[1:], "sig is not the base64 of 64 bytes"},
		"65 bytes":      {base64.StdEncoding.EncodeToString(make([]byte, 65)), "sig is not the base64 of 64 bytes"},
		"other bytes":   {base64.StdEncoding.EncodeToString(make([]byte, 64)), "it does not fit these bytes and key " + key.ID().String()},
		"another's key": {r.Sig, "it does not fit these bytes and key " + b.executor.Public().ID().String()},
	} {
		by := key
		if name == "another's key" {
			by = b.executor.Public()
		}
		if err := checkSignature(record, c.sig, by); !errors.Is(err, ErrSignatureInvalid) || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestPublicKeysAreText(t *testing.T) {
	key := testKey(t, 1).Public()
	var got PublicKey
	if err := json.Unmarshal(encode(t, key), &got); err != nil || got != key {
		t.Errorf("%v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`"00"`), &got); err == nil {
		t.Error("half a key was taken")
	}
}

func TestBodiesOfRecords(t *testing.T) {
	for b, want := range map[string]bool{`{}`: true, ` 1 `: true, "{\n}": false, "\n1": false, `{`: false, ``: false} {
		if ValidBody([]byte(b)) != want {
			t.Errorf("%q can be a body: %v", b, !want)
		}
	}
}

const oneRecord = `{"at":"2026-11-15T02:30:00.123456789Z","body":{},"kind":"run.started","path":"","run":"R","seq":1,"v":1}`

// A record has one spelling; every other is refused, and said to be what it is.
func TestSpellingOfRecords(t *testing.T) {
	if _, err := Parse([]byte(oneRecord)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		old, with string
		code      FaultCode
		message   string
	}{
		{`{"at"`, "\n" + `{"at"`, ErrMalformed, "it holds a line feed"},
		{`"at":`, `"at"=`, ErrMalformed, "no member of a record stands at byte 1"},
		{`"v":1}`, `"v"`, ErrMalformed, fmt.Sprintf("no member of a record stands at byte %d", len(oneRecord)-len(`"v":1}`))},
		{`"v":1`, `"v":9`, ErrVersion, "v is not 1, the one version this reader knows"},
		{`"v":1`, `"v":-1`, ErrVersion, "v is not 1, the one version this reader knows"},
		{`"v":1`, `"v":"1"`, ErrMalformed, "v is not a number"},
		{`"path":"","run":"R",`, ``, ErrFieldMissing, "path, run"},
		{`"body":{},`, `"body":{},"from":"user",`, ErrMalformed, "a record of kind run.started has no member from"},
		{`"seq":1`, `"seq":18446744073709551617`, ErrMalformed, "seq is not a whole number from 1 to 9007199254740991"}, // one more than 64 bits hold
		{`"seq":1`, `"seq":9007199254740992`, ErrMalformed, "seq is not a whole number from 1 to 9007199254740991"},
		{`"seq":1`, `"seq":0`, ErrMalformed, "seq is not a whole number from 1 to 9007199254740991"},
		{`2026-11-15T02:30:00.123456789Z`, `2026`, ErrMalformed, "at is not a time of nine decimals and Z"},
		{`"2026-11-15T02:30:00.123456789Z"`, strings.Repeat("1", 32), ErrMalformed, "at is not a time of nine decimals and Z"},
		{`-11-15`, `-02-30`, ErrMalformed, "at is no time of the calendar: 2026-02-30T02:30:00.123456789Z"},
		{`-11-15`, `-13-05`, ErrMalformed, "at is no time of the calendar: 2026-13-05T02:30:00.123456789Z"},
		{`-11-15`, `-00-05`, ErrMalformed, "at is no time of the calendar: 2026-00-05T02:30:00.123456789Z"},
		{`-11-15`, `-11-00`, ErrMalformed, "at is no time of the calendar: 2026-11-00T02:30:00.123456789Z"},
		{`-11-15`, `-12-32`, ErrMalformed, "at is no time of the calendar: 2026-12-32T02:30:00.123456789Z"},
		{`T02:30`, `T24:30`, ErrMalformed, "at is no time of the calendar: 2026-11-15T24:30:00.123456789Z"},
		{`:30:00`, `:60:00`, ErrMalformed, "at is no time of the calendar: 2026-11-15T02:60:00.123456789Z"},
		{`:30:00`, `:30:60`, ErrMalformed, "at is no time of the calendar: 2026-11-15T02:30:60.123456789Z"},
	} {
		if !strings.Contains(oneRecord, c.old) {
			t.Fatalf("%s is not there", c.old)
		}
		_, err := Parse([]byte(strings.Replace(oneRecord, c.old, c.with, 1)))
		if !errors.Is(err, c.code) || !strings.HasSuffix(err.Error(), ": "+c.message) {
			t.Errorf("%s for %s: %v, want %s: %s", c.with, c.old, err, c.code, c.message)
		}
	}
	if _, err := Parse([]byte(`{}`)); err == nil || err.Error() != string(ErrFieldMissing)+": at, body, kind, path, run, seq, v" {
		t.Errorf("an empty record: %v", err)
	}
	if n, ok := wholeNumber(nil); ok {
		t.Errorf("nothing is the number %d", n)
	}
}

func TestTimesAreSpelledInOneWay(t *testing.T) {
	const good = `"2026-11-15T02:30:00.123456789Z"`
	if _, err := parseTime([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(good)-1; i++ {
		for _, c := range []byte("/:x-T.Z 9") {
			changed := []byte(good)
			changed[i] = c
			digit := good[i] >= '0' && good[i] <= '9'
			if _, err := parseTime(changed); err == nil && c != good[i] && !(digit && c == '9') {
				t.Errorf("%s is a time", changed)
			}
		}
	}
}

func TestReferencesAreSpelledInOneWay(t *testing.T) {
	digest := Sum([]byte("x")).String()
	good := `{"$blob":"` + digest + `","size":12}`
	if ref, ok := parseReference([]byte(good)); !ok || ref.size != 12 || ref.digest != Sum([]byte("x")) {
		t.Fatalf("%s: %+v, %v", good, ref, ok)
	}
	for _, v := range []string{``, `{}`, `{"$blob":"`, `{"$blob":"` + digest, `{"$blob":"` + digest + `"}`, `{"$blob":"` + digest + `","size":`, `{"$blob":"` + digest + `","size":}`,
		strings.Replace(good, "sha256", "SHA256", 1), strings.Replace(good, "12", "0", 1), strings.Replace(good, "12", "012", 1), strings.Replace(good, "12}", "12]", 1),
		strings.Replace(good, "12}", "12", 1), good + "}", strings.Replace(good, `","size":`, `","sise":`, 1), strings.Replace(good, `{"$blob"`, `{ "$blob"`, 1), strings.TrimPrefix(good, `{"$blob":"`)} {
		if ref, ok := parseReference([]byte(v)); ok {
			t.Errorf("%s is the reference %+v", v, ref)
		}
	}
}

// Only the kinds that name documents do: elsewhere a digest is a text.
func TestDigestsInPlainRecordsAreText(t *testing.T) {
	ref := reference{Sum([]byte("x")), 12}.append(nil)
	got, err := Digests("effect.suspended", false, fmt.Appendf(nil, `{"value":%s,"program_digest":%q,"keep":[7]}`, ref, Sum([]byte("y"))))
	if err != nil || len(got) != 1 || got[0] != Sum([]byte("x")) {
		t.Errorf("%v, %v", got, err)
	}
}

// A payload that cannot be kept ends it; one further on is reached otherwise.
func TestPayloadsInErrors(t *testing.T) {
	l, full := newLibrary(), errors.New("disk full")
	puts := 0
	_, err := Detach("effect.finished", false, []byte(`{"error":{"detail":{"$blob":1},"code":"x"},"value":{"$blob":1}}`), func([]byte) (Hash, error) { puts++; return Hash{}, full })
	if !errors.Is(err, full) || puts != 1 {
		t.Errorf("%v after %d payloads", err, puts)
	}
	out, err := Detach("effect.finished", false, []byte(`{"error":{"code":"x"},"value":{"$blob":1}}`), l.put)
	if err != nil || len(l.blobs) != 1 {
		t.Errorf("%s, %v", out, err)
	}
	out, err = Detach("effect.finished", false, []byte(`{"error":{"detail":{"$blob":1}},"value":{"$blob":2}}`), l.put)
	if err != nil || len(l.blobs) != 2 {
		t.Errorf("%s, %v", out, err)
	}
}

// from yields these records, whichever run is asked for.
func from(records ...string) Source {
	return Source{Run: testRun, Records: func(string, int64) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for _, r := range records {
				if !yield([]byte(r), nil) {
					return
				}
			}
		}
	}}
}

// Records are exported as they are; what cannot stand in a line is not.
func TestExportOfDamagedRecords(t *testing.T) {
	at := func(seq int) string { return strings.Replace(oneRecord, `"seq":1`, fmt.Sprintf(`"seq":%d`, seq), 1) }
	for name, c := range map[string]struct {
		records []string
		seq     int
	}{
		"none":              {nil, 0},
		"whole":             {[]string{at(1), at(2)}, 2},
		"the last torn":     {[]string{at(1), "x"}, 2},
		"one torn":          {[]string{"x", at(2)}, 2},
		"another number":    {[]string{at(1), at(7)}, 7},
		"torn after a leap": {[]string{at(7), "x"}, 8},
	} {
		dir := filepath.Join(t.TempDir(), "export")
		if err := Export(dir, from(c.records...)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		files := tree(t, dir)
		if want := fmt.Sprintf(`"seq":%d}`, c.seq); !strings.HasSuffix(files["head.json"], want) {
			t.Errorf("%s: %s, want %s", name, files["head.json"], want)
		}
		if _, err := os.Stat(filepath.Join(dir, blobsDir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a folder for no blobs: %v", name, err)
		}
	}
	for _, r := range []string{"\nx", "x\n", "x\ny"} {
		err := Export(filepath.Join(t.TempDir(), "export"), from(at(1), r))
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "record 2 of "+testRun) {
			t.Errorf("%q: %v", r, err)
		}
	}
}

// The keys of an export are those of the first draft, wherever it stands.
func TestExportTakesTheKeysOfTheFirstDraft(t *testing.T) {
	b, l := newBook(t, testRun), newLibrary()
	l.books[testRun] = b
	b.plain("run.started", "", `{}`)
	b.seal("intent.draft", Executor, b.draftBody(l, ""))
	want := b.user.Public().String() + "\n"
	b.user = testKey(t, 7)
	b.seal("intent.draft", Executor, b.draftBody(l, ""))
	if files := tree(t, exportOf(t, l, testRun)); files["keys/user.pub"] != want {
		t.Errorf("user.pub is %q, want %q", files["keys/user.pub"], want)
	}
}

// A blob that is named by its digest and by a reference is written once.
func TestBlobsNamedTwice(t *testing.T) {
	b, l := newBook(t, testRun), newLibrary()
	b.begin(l, "")
	text := []byte(`{"tools":[]}`)
	for range 2 {
		b.plain("effect.finished", "a", fmt.Sprintf(`{"value":%s}`, reference{Sum(text), int64(len(text))}.append(nil)))
	}
	b.end(l)
	if files := tree(t, exportOf(t, l, testRun)); files["blobs/"+Sum(text).Hex()] != string(text) {
		t.Error("the blob is not there")
	}
	gone := *l
	gone.blobs = map[Hash][]byte{}
	opts := b.options(&gone)
	missing := 0
	for _, f := range verify(b.records, opts).Faults {
		if f.Code == ErrBlobMissing && strings.Contains(f.Message, Sum(text).String()) {
			missing++
		}
	}
	if missing != 2 { // named with a size and without
		t.Errorf("%d faults of one missing blob, which is named in two ways", missing)
	}
}

// Forks that go round in a circle end where they began, for who writes and who reads.
func TestExportOfForksInACircle(t *testing.T) {
	l := newLibrary()
	hash := Sum([]byte("x")).String()
	for run, base := range map[string]string{testRun: otherRun, otherRun: forkRun, forkRun: otherRun} {
		b := newBook(t, run)
		b.begin(l, fmt.Sprintf(`,"fork_of":{"run":%q,"seq":1,"hash":%q}`, base, hash))
	}
	dir := exportOf(t, l, testRun)
	files := tree(t, dir)
	if files["base/"+otherRun+".ndjson"] == "" || files["base/"+forkRun+".ndjson"] == "" {
		t.Error("a base is missing")
	}
	res, err := VerifyExport(dir, &Options{Open: true, Trusted: newBook(t, testRun).trusted()})
	if err != nil || res.Total != 2 { // neither base has the hash that its fork names
		t.Errorf("%v, %v", res.Faults, err)
	}
	wantCodes(t, res.Faults, ErrTruncated)
}

func TestAnExportIsAFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyExport(file, nil); err == nil || !strings.HasSuffix(err.Error(), "is not a folder; an export is one") {
		t.Errorf("an export that is a file: %v", err)
	}
}

// A record that is no envelope has no file; what is wrong with it others say.
func TestFilesOfWhatIsNoEnvelope(t *testing.T) {
	faults, err := VerifyFiles(t.TempDir(), func(yield func([]byte, error) bool) { yield([]byte("x"), nil) })
	if err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}

// A whole journal of another run is not the one that was asked for.
func TestTheJournalOfAnotherRun(t *testing.T) {
	b, l := newBook(t, otherRun), newLibrary()
	b.begin(l, "")
	b.end(l)
	opts := b.options(l)
	opts.Run = testRun
	wantCodes(t, verify(b.records, opts).Faults, ErrOtherRun)
}
