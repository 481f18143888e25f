package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exportOf writes a run's export to a fresh folder.
func exportOf(t testing.TB, l *library, run string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "export")
	if err := Export(dir, l.source(run)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree is every file of a folder, by its path with slashes.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestExportLayout(t *testing.T) {
	b, l := wholeRun(t)
	files := tree(t, exportOf(t, l, testRun))
	if want := string(bytes.Join(b.records, []byte("\n"))) + "\n"; files["records.ndjson"] != want {
		t.Error("records.ndjson is not the records, a line feed after each")
	}
	if want := `{"envelopes":7,"hash":"` + b.head.String() + `","run":"` + testRun + `","seq":13}`; files["head.json"] != want {
		t.Errorf("head.json is %s, want %s", files["head.json"], want)
	}
	if files["keys/user.pub"] != b.user.Public().String()+"\n" || files["keys/executor.pub"] != b.executor.Public().String()+"\n" {
		t.Error("the key files are not hex and a line feed")
	}
	for digest, blob := range l.blobs {
		if files["blobs/"+digest.Hex()] != string(blob) {
			t.Errorf("blob %s is missing or differs", digest)
		}
	}
	if want := 4 + len(l.blobs); len(files) != want {
		t.Errorf("%d files, want %d", len(files), want)
	}
}

func TestExportTwiceIsIdentical(t *testing.T) {
	b, l := wholeRun(t)
	forkOf(l, b, 7, forkRun)
	first, second := exportOf(t, l, forkRun), exportOf(t, l, forkRun)
	sameTree(t, first, second)

	// An export of an export is the same again.
	folder, err := OpenExport(first)
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "again")
	if err := Export(again, folder.Source()); err != nil {
		t.Fatal(err)
	}
	sameTree(t, first, again)
}

func sameTree(t *testing.T, a, b string) {
	t.Helper()
	one, two := tree(t, a), tree(t, b)
	for name := range one {
		if one[name] != two[name] {
			t.Errorf("%s differs", name)
		}
	}
	if len(one) != len(two) {
		t.Errorf("%d files and %d", len(one), len(two))
	}
}

func TestExportRefuses(t *testing.T) {
	_, l := wholeRun(t)
	existing := t.TempDir()
	if err := Export(existing, l.source(testRun)); err == nil || !strings.Contains(err.Error(), "new folder") {
		t.Errorf("an existing folder: %v", err)
	}
	if files := tree(t, existing); len(files) != 0 {
		t.Error("something was written to it")
	}
	dir := filepath.Join(t.TempDir(), "export")
	if err := Export(dir, l.source(otherRun)); err == nil {
		t.Error("a run that does not exist was exported")
	}
	delete(l.blobs, largest(l))
	if err := Export(dir, l.source(testRun)); !errors.Is(err, ErrBlobMissing) {
		t.Errorf("without a blob: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a failed export left its folder behind")
	}
}

func TestOpenExport(t *testing.T) {
	b, l := wholeRun(t)
	fork := forkOf(l, b, 7, forkRun)
	folder, err := OpenExport(exportOf(t, l, forkRun))
	if err != nil {
		t.Fatal(err)
	}
	if folder.Run != forkRun || folder.Head.Seq != int64(len(fork.records)) || folder.Head.Hash != fork.head || folder.Envelopes != 5 {
		t.Errorf("head: %+v", folder)
	}
	if folder.User != b.user.Public() || folder.Executor != b.executor.Public() {
		t.Error("the keys differ")
	}
	i := 0
	for r, err := range folder.Records() {
		if err != nil || !bytes.Equal(r, fork.records[i]) {
			t.Errorf("record %d differs: %v", i+1, err)
		}
		i++
	}
	if i != len(fork.records) {
		t.Errorf("%d records, want %d", i, len(fork.records))
	}
	i = 0
	for r, err := range folder.Base(testRun) {
		if err != nil || !bytes.Equal(r, b.records[i]) {
			t.Errorf("record %d of the base differs: %v", i+1, err)
		}
		i++
	}
	if i != 7 {
		t.Errorf("%d records of the base, want those up to 7", i)
	}
	for range folder.Base("../records") {
		t.Error("a name that leaves the folder was followed")
	}
	blob, err := folder.Blob(largest(l))
	if err != nil || !bytes.Equal(blob, l.blobs[largest(l)]) {
		t.Errorf("blob: %v", err)
	}
	if _, err := folder.Blob(Sum([]byte("none"))); !errors.Is(err, ErrBlobMissing) {
		t.Errorf("no blob: %v", err)
	}
	if _, err := OpenExport(t.TempDir()); err == nil {
		t.Error("an empty folder was opened")
	}
}

func TestLongLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines")
	long := strings.Repeat("x", 1<<19)
	if err := os.WriteFile(path, []byte("a\n"+long+"\n\nb"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	var last error
	for line, err := range lines(path) {
		got, last = append(got, string(line)), err
	}
	if want := []string{"a", long, "", "b"}; !slices.Equal(got, want) || !errors.Is(last, ErrMalformed) {
		t.Errorf("%d lines, last with %v", len(got), last)
	}
}

// exports are whole ones that must verify: a run, a fork, a fork of a fork.
func goodExports(t testing.TB) map[string]string {
	b, l := wholeRun(t)
	fork := forkOf(l, b, 7, forkRun)
	forkOf(l, fork, 6, otherRun)
	return map[string]string{
		"a run": exportOf(t, l, testRun), "a fork": exportOf(t, l, forkRun), "a fork of a fork": exportOf(t, l, otherRun),
	}
}

func TestGoodExportsVerify(t *testing.T) {
	opts := &Options{Trusted: newBook(t, testRun).trusted()}
	for name, dir := range goodExports(t) {
		res, err := VerifyExport(dir, opts)
		if err != nil || !res.OK() {
			t.Errorf("%s: %v, %v", name, res.Faults, err)
		}
	}
}

// damage is one way to harm an export, and what must be found.
type damage struct {
	name string
	want []FaultCode
	do   func(t *testing.T, dir string)
}

func edited(file string, change func(t *testing.T, content []byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(file))
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, change(t, content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func replaced(file, old, with string) func(*testing.T, string) {
	return edited(file, func(t *testing.T, content []byte) []byte { return replaceIn(t, content, old, with) })
}

func removed(file string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(file))); err != nil {
			t.Fatal(err)
		}
	}
}

func added(file, content string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// relined changes the records of a file as a list.
func relined(file string, change func(lines [][]byte) [][]byte) func(*testing.T, string) {
	return edited(file, func(_ *testing.T, content []byte) []byte {
		lines := bytes.Split(bytes.TrimSuffix(content, []byte("\n")), []byte("\n"))
		return append(bytes.Join(change(lines), []byte("\n")), '\n')
	})
}

// damages are of the export of a fork; its base is testRun up to 7.
func damages(t testing.TB) []damage {
	base := "base/" + testRun + ".ndjson"
	b, l := wholeRun(t)
	stranger := testKey(t, 9)
	payload := "blobs/" + largest(l).Hex()
	strangerEnvelope := func(lines [][]byte) [][]byte {
		last := len(lines) - 1
		rec, err := Parse(lines[last])
		if err != nil {
			t.Fatal(err)
		}
		rec.Key = ""
		lines[last] = b.sign(stranger, rec)
		return lines
	}
	resigned := func(key *PrivateKey, at int, change func(*Record)) func(lines [][]byte) [][]byte {
		return func(lines [][]byte) [][]byte {
			rec, err := Parse(lines[at])
			if err != nil {
				t.Fatal(err)
			}
			change(&rec)
			rec.Key = ""
			lines[at] = b.sign(key, rec)
			return lines
		}
	}
	last := 6 // the attestation of the fork
	body := func(old, with string) func(*Record) {
		return func(r *Record) { r.Body = replaceIn(t, r.Body, old, with) }
	}
	return []damage{
		{"a byte of a plain record", []FaultCode{ErrHead, ErrTruncated}, replaced(recordsFile, `"pid":4711`, `"pid":4712`)},
		{"a byte of the structure", []FaultCode{ErrMalformed, ErrHead, ErrTruncated}, replaced(recordsFile, `"kind":"run.started"`, `"kinb":"run.started"`)},
		{"a byte of an envelope", []FaultCode{ErrSignatureInvalid, ErrPrev, ErrHead, ErrTruncated}, replaced(recordsFile, `"via":"command"`, `"via":"commanb"`)},
		{"a byte of a signature", []FaultCode{ErrSignatureInvalid, ErrTruncated}, edited(recordsFile, func(_ *testing.T, c []byte) []byte {
			at := len(c) - 60
			c[at] = map[bool]byte{true: 'B', false: 'A'}[c[at] == 'A']
			return c
		})},
		{"spare bits in a signature", []FaultCode{ErrSignatureInvalid, ErrTruncated}, func(t *testing.T, dir string) {
			relined(recordsFile, func(lines [][]byte) [][]byte {
				lines[last] = withSpareBits(t, lines[last])
				return lines
			})(t, dir)
		}},
		{"a byte that is not UTF-8", []FaultCode{ErrMalformed, ErrHead, ErrTruncated}, replaced(recordsFile, `"kind":"foreground"`, "\"kind\":\"foregroun\xff\"")},
		{"NaN in a body", []FaultCode{ErrMalformed, ErrHead, ErrTruncated}, replaced(recordsFile, `"pid":4711`, `"pid":NaN`)},
		{"swapped records", []FaultCode{ErrGap, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte {
			l[4], l[5] = l[5], l[4]
			return l
		})},
		{"swapped envelopes", []FaultCode{ErrGap, ErrHead, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte {
			l[1], l[2] = l[2], l[1]
			return l
		})},
		{"a deleted record", []FaultCode{ErrGap, ErrHead, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte { return slices.Delete(l, 4, 5) })},
		{"a deleted envelope", []FaultCode{ErrGap, ErrHead, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte { return slices.Delete(l, 2, 3) })},
		{"the draft deleted", []FaultCode{ErrGap, ErrUnknownKey, ErrTruncated, ErrFileUnexpected}, relined(recordsFile, func(l [][]byte) [][]byte { return l[1:] })},
		{"cut between records", []FaultCode{ErrUnterminated, ErrTruncated, ErrFileUnexpected}, relined(recordsFile, func(l [][]byte) [][]byte { return l[:last] })},
		{"cut within a record", []FaultCode{ErrMalformed, ErrUnterminated, ErrTruncated, ErrFileUnexpected}, edited(recordsFile, func(_ *testing.T, c []byte) []byte { return c[:len(c)-50] })},
		{"the last line feed cut", []FaultCode{ErrMalformed, ErrUnterminated, ErrTruncated, ErrFileUnexpected}, edited(recordsFile, func(_ *testing.T, c []byte) []byte { return c[:len(c)-1] })},
		{"everything cut", []FaultCode{ErrUnterminated, ErrTruncated, ErrFileUnexpected}, edited(recordsFile, func(*testing.T, []byte) []byte { return nil })},
		{"no records", []FaultCode{ErrUnterminated, ErrTruncated, ErrFileUnexpected}, removed(recordsFile)},
		{"an inserted record", []FaultCode{ErrGap, ErrHead, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte { return slices.Insert(l, 5, l[4]) })},
		{"an empty line", []FaultCode{ErrMalformed, ErrGap, ErrHead, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte { return slices.Insert(l, 5, nil) })},
		{"a record appended", []FaultCode{ErrTailUncovered, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte {
			return append(l, replaceIn(t, l[5], `"seq":6`, `"seq":8`))
		})},
		{"a record of another run", []FaultCode{ErrOtherRun, ErrHead, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte {
			l[4] = replaceIn(t, l[4], forkRun, testRun)
			return l
		})},
		{"another version", []FaultCode{ErrVersion, ErrHead, ErrTruncated}, replaced(recordsFile, `"seq":6,"v":1}`, `"seq":6,"v":2}`)},
		{"a member missing", []FaultCode{ErrFieldMissing, ErrHead, ErrTruncated}, replaced(recordsFile, `"path":"","run":"`+forkRun+`","seq":6`, `"run":"`+forkRun+`","seq":6`)},
		{"signed with a foreign key", []FaultCode{ErrUnknownKey, ErrTruncated}, relined(recordsFile, strangerEnvelope)},
		{"not signed", []FaultCode{ErrSignatureMissing, ErrTruncated}, relined(recordsFile, func(l [][]byte) [][]byte {
			e := l[last]
			l[last] = slices.Concat(e[:len(e)-tailLen], e[len(e)-len(recordEnd):])
			return l
		})},
		{"accepted by the executor alone", []FaultCode{ErrWrongPrincipal, ErrPrev, ErrHead, ErrTruncated},
			relined(recordsFile, resigned(b.executor, atAccept, func(r *Record) { r.From = Executor }))},
		{"the executor posing as the user", []FaultCode{ErrWrongPrincipal, ErrPrev, ErrHead, ErrTruncated},
			relined(recordsFile, resigned(b.executor, atAccept, func(*Record) {}))},
		{"an unknown field, signed", []FaultCode{ErrBody, ErrTruncated}, relined(recordsFile, resigned(b.executor, last, body(`"cited"`, `"cite":1,"cited"`)))},
		{"a missing field, signed", []FaultCode{ErrBody, ErrTruncated}, relined(recordsFile, resigned(b.executor, last, body(`"cited":[],`, ``)))},
		{"another head, signed", []FaultCode{ErrHead, ErrTruncated}, relined(recordsFile, resigned(b.executor, last, func(r *Record) { r.Head = Hash{}.String() }))},
		{"another prev, signed", []FaultCode{ErrPrev, ErrTruncated}, relined(recordsFile, resigned(b.executor, last, func(r *Record) { r.Prev = Hash{}.String() }))},
		{"rehashed in head.json, not signed again", []FaultCode{ErrHead}, func(t *testing.T, dir string) {
			replaced(recordsFile, `"pid":4711`, `"pid":4712`)(t, dir)
			rehash(t, dir)
		}},
		{"a base's byte", []FaultCode{ErrTruncated}, replaced(base, `"path":"a.txt"`, `"path":"b.txt"`)},
		{"a base's envelope", []FaultCode{ErrSignatureInvalid, ErrPrev, ErrTruncated}, replaced(base, `"via":"command"`, `"via":"commanb"`)},
		{"a base cut", []FaultCode{ErrTruncated, ErrFileUnexpected}, relined(base, func(l [][]byte) [][]byte { return l[:6] })},
		{"a base with a record more", []FaultCode{ErrTruncated}, relined(base, func(l [][]byte) [][]byte { return append(l, b.records[7]) })},
		{"no base", []FaultCode{ErrTruncated, ErrFileUnexpected}, removed(base)},
		{"a base of another run", []FaultCode{ErrOtherRun, ErrTruncated}, relined(base, func(l [][]byte) [][]byte {
			l[4] = replaceIn(t, l[4], testRun, forkRun)
			return l
		})},
		{"another base's file", []FaultCode{ErrFileUnexpected}, added("base/"+otherRun+".ndjson", "")},
		{"a changed blob", []FaultCode{ErrBlobMismatch}, replaced(payload, "long", "lonk")},
		{"a shorter blob", []FaultCode{ErrBlobMismatch}, edited(payload, func(_ *testing.T, c []byte) []byte { return c[1:] })},
		{"a missing blob", []FaultCode{ErrBlobMissing}, removed(payload)},
		{"a blob that nobody names", []FaultCode{ErrFileUnexpected}, added("blobs/"+Sum([]byte("x")).Hex(), "x")},
		{"an extra file", []FaultCode{ErrFileUnexpected}, added("notes.txt", "hello")},
		{"a hidden file", []FaultCode{ErrFileUnexpected}, added("keys/.hidden", "")},
		{"an extra folder", []FaultCode{ErrFileUnexpected}, added("more/notes.txt", "hello")},
		{"a link in place of a file", []FaultCode{ErrFileUnexpected}, func(t *testing.T, dir string) {
			elsewhere := filepath.Join(t.TempDir(), "payload")
			if err := os.Rename(filepath.Join(dir, filepath.FromSlash(payload)), elsewhere); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, filepath.Join(dir, filepath.FromSlash(payload))); err != nil {
				t.Skip("no symbolic links here")
			}
		}},
		{"a changed key", []FaultCode{ErrUnknownKey}, added("keys/user.pub", stranger.Public().String()+"\n")},
		{"a key without its line feed", []FaultCode{ErrUnknownKey}, added("keys/user.pub", b.user.Public().String())},
		{"a missing key", []FaultCode{ErrUnknownKey}, removed("keys/executor.pub")},
		{"an extra key", []FaultCode{ErrFileUnexpected}, added("keys/other.pub", stranger.Public().String()+"\n")},
		{"another seq in head.json", []FaultCode{ErrTruncated}, replaced(headFile, `"seq":7`, `"seq":8`)},
		{"another count in head.json", []FaultCode{ErrTruncated}, replaced(headFile, `"envelopes":5`, `"envelopes":6`)},
		{"another run in head.json", []FaultCode{ErrTruncated}, replaced(headFile, forkRun, testRun)},
		{"white space in head.json", []FaultCode{ErrTruncated}, replaced(headFile, `}`, "}\n")},
		{"no head.json", []FaultCode{ErrTruncated}, removed(headFile)},
		{"head.json that is no JSON", []FaultCode{ErrTruncated}, added(headFile, "{")},
	}
}

// rehash makes head.json fit the records again, as a careful forger would.
func rehash(t *testing.T, dir string) {
	t.Helper()
	s := summary{run: forkRun}
	for r, err := range lines(filepath.Join(dir, recordsFile)) {
		if err != nil {
			t.Fatal(err)
		}
		s.add(r)
	}
	if err := os.WriteFile(filepath.Join(dir, headFile), s.headJSON(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// forkExport is what damages are done to.
func forkExport(t *testing.T) string {
	t.Helper()
	b, l := wholeRun(t)
	forkOf(l, b, 7, forkRun)
	return exportOf(t, l, forkRun)
}

// harmed is a copy of an export with one damage done to it.
func harmed(t *testing.T, export string, d damage) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(export)); err != nil {
		t.Fatal(err)
	}
	d.do(t, dir)
	return dir
}

func TestDamagedExports(t *testing.T) {
	opts := &Options{Trusted: newBook(t, testRun).trusted()}
	export := forkExport(t)
	for _, d := range damages(t) {
		t.Run(d.name, func(t *testing.T) {
			res, err := VerifyExport(harmed(t, export, d), opts)
			if err != nil {
				t.Fatal(err)
			}
			wantCodes(t, res.Faults, d.want...)
		})
	}
}

func TestVerifyExportNeedsAFolder(t *testing.T) {
	if _, err := VerifyExport(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("what is not there was verified")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyExport(file, nil); err == nil {
		t.Error("a file was verified as a folder")
	}
}

// Files of an export say where a fault is.
func TestFaultsNameTheirFile(t *testing.T) {
	base := "base/" + testRun + ".ndjson"
	dir := harmed(t, forkExport(t), damage{do: replaced(base, `"pid":4711`, `"pid":4712`)})
	res, err := VerifyExport(dir, &Options{Trusted: newBook(t, testRun).trusted()})
	if err != nil || len(res.Faults) != 1 || res.Faults[0].File != base {
		t.Errorf("%v, %v", res.Faults, err)
	}
}
