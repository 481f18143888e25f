package journal

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// What tools and models have said is nobody else's business.
func TestExportIsForItsOwnerAlone(t *testing.T) {
	b, l := wholeRun(t)
	forkOf(l, b, 7, forkRun)
	err := filepath.WalkDir(exportOf(t, l, forkRun), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
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

// Whoever kills an export at any moment finds no folder of its name.
func TestExportAppearsWhole(t *testing.T) {
	_, l := wholeRun(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "export")
	src := l.source(testRun)
	looked := 0
	src.Blob = func(h Hash) ([]byte, error) {
		looked++
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder is there before it is whole: %v", err)
		}
		return l.blob(h)
	}
	if err := Export(dir+"/", src); err != nil || looked == 0 {
		t.Fatal(err)
	}
	if res, err := VerifyExport(dir, &Options{Trusted: newBook(t, testRun).trusted()}); err != nil || !res.OK() {
		t.Errorf("%v, %v", res.Faults, err)
	}

	// What stands there by the time it is whole stays, and nothing is left behind.
	dir = filepath.Join(parent, "taken")
	src.Blob = func(h Hash) ([]byte, error) {
		if err := os.MkdirAll(filepath.Join(dir, "mine"), 0o700); err != nil {
			t.Fatal(err)
		}
		return l.blob(h)
	}
	if err := Export(dir, src); err == nil {
		t.Error("a folder that came in between was replaced")
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := Export(filepath.Join(parent, "none", "export"), src); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// Whatever cannot be written fails the export, and nothing is left of it.
func TestExportThatCannotBeWritten(t *testing.T) {
	for _, name := range []string{headFile, keysDir, blobsDir} {
		_, l := wholeRun(t)
		parent := t.TempDir()
		src := l.source(testRun)
		records := src.Records
		src.Records = func(run string, upTo int64) iter.Seq2[[]byte, error] {
			partial, err := filepath.Glob(filepath.Join(parent, ".tipstaff-export-*"))
			if err != nil || len(partial) != 1 {
				t.Fatalf("it is written to %v, %v", partial, err)
			}
			if err := os.Mkdir(filepath.Join(partial[0], name), 0o700); err != nil {
				t.Fatal(err)
			}
			return records(run, upTo)
		}
		if err := Export(filepath.Join(parent, "export"), src); !errors.Is(err, fs.ErrExist) {
			t.Errorf("without %s: %v", name, err)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
			t.Errorf("without %s: left behind are %v, %v", name, entries, err)
		}
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
	dir := t.TempDir()
	long := strings.Repeat("x", 1<<19)
	if err := os.WriteFile(filepath.Join(dir, "lines"), []byte("a\n"+long+"\n\nb"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	var last error
	for line, err := range lines(dir, "lines") {
		got, last = append(got, string(line)), err
	}
	if want := []string{"a", long, "", "b"}; !slices.Equal(got, want) || !errors.Is(last, ErrMalformed) {
		t.Errorf("%d lines, last with %v", len(got), last)
	}
}

// A file that cannot be opened is an error, and not an empty file.
func TestLinesThatCannotBeRead(t *testing.T) {
	n := 0
	for line, err := range (&Folder{Dir: "no\x00name"}).Records() {
		if n++; err == nil || line != nil {
			t.Errorf("%q, %v", line, err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

// A line of MaxRecord bytes is read, and one of a byte more is not.
func TestLinesHaveALimit(t *testing.T) {
	for size, want := range map[int]error{MaxRecord - 1: nil, MaxRecord: nil, MaxRecord + 1: errLongLine, MaxRecord + 1<<19: errLongLine} {
		text := bytes.Repeat([]byte("x"), size)
		line, err := readLine(bufio.NewReaderSize(io.MultiReader(bytes.NewReader(text), strings.NewReader("\n")), 1<<18))
		if err != want || err == nil && !bytes.Equal(line, text) {
			t.Errorf("of %d bytes: %d were read, %v", size, len(line), err)
		}
	}
}

// A blob of MaxPayload bytes is one.
func TestBlobsHaveALimit(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, blobsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]error{MaxPayload: nil, MaxPayload + 1: ErrBlobMismatch} {
		blob := make([]byte, size)
		if err := os.WriteFile(filepath.Join(dir, blobsDir, Sum(blob).Hex()), blob, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := (&Folder{Dir: dir}).Blob(Sum(blob))
		if !errors.Is(err, want) || err == nil && !bytes.Equal(got, blob) {
			t.Errorf("of %d bytes: %d were read, %v", size, len(got), err)
		}
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

// forkExport is the export of a fork; its base is testRun up to 7.
func forkExport(t *testing.T) string {
	t.Helper()
	b, l := wholeRun(t)
	forkOf(l, b, 7, forkRun)
	return exportOf(t, l, forkRun)
}

// harmed is a copy of an export in which one file was changed.
func harmed(t *testing.T, export, file string, change func(content []byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(export)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.FromSlash(file))
	content, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
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
	dir := harmed(t, forkExport(t), base, func(c []byte) []byte { return replaceIn(t, c, `"pid":4711`, `"pid":4712`) })
	res, err := VerifyExport(dir, &Options{Trusted: newBook(t, testRun).trusted()})
	if err != nil || len(res.Faults) != 1 || res.Faults[0].File != base {
		t.Errorf("%v, %v", res.Faults, err)
	}
}

// Faults of a base are all counted, as those of the run are.
func TestFaultsOfABaseAreCounted(t *testing.T) {
	const lines = 2 * MaxFaults
	dir := harmed(t, forkExport(t), "base/"+testRun+".ndjson", func([]byte) []byte { return bytes.Repeat([]byte("{\n"), lines) })
	res, err := VerifyExport(dir, &Options{Trusted: newBook(t, testRun).trusted()})
	// The base ends elsewhere than fork_of says, and its payload belongs to nobody.
	if err != nil || res.Total != lines+2 || len(res.Faults) != MaxFaults {
		t.Errorf("%d faults, %d listed, %v", res.Total, len(res.Faults), err)
	}
}

// The blobs of an export are those in its folder.
func TestVerifyExportLooksNowhereElse(t *testing.T) {
	b, l := wholeRun(t)
	opts := &Options{Trusted: b.trusted(), Blob: func(h Hash) ([]byte, error) { return nil, errors.New("asked elsewhere") }}
	if res, err := VerifyExport(exportOf(t, l, testRun), opts); err != nil || !res.OK() {
		t.Errorf("%v, %v", res.Faults, err)
	}
}

// The chain covers what was read: a last line without its line feed, but no line
// that is too long.
func TestHeadOfAnExportThatWasCut(t *testing.T) {
	for name, by := range map[string]int64{"no last line feed": -1, "a line too long": MaxRecord + 1} {
		b, l := wholeRun(t)
		dir := exportOf(t, l, testRun)
		records := filepath.Join(dir, recordsFile)
		info, err := os.Stat(records)
		if err == nil {
			err = os.Truncate(records, info.Size()+by)
		}
		if err != nil {
			t.Fatal(err)
		}
		res, err := VerifyExport(dir, &Options{Trusted: b.trusted()})
		if err != nil || res.OK() || res.Head != b.head {
			t.Errorf("%s: %v, %v; the head is %s, want %s", name, res.Faults, err, res.Head, b.head)
		}
	}
}

// A file that cannot be read says nothing about the journal: it is an error.
func TestVerifyExportThatCannotBeRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can read every file")
	}
	for _, file := range []string{recordsFile, headFile, keysDir + "/" + userPub} {
		b, l := wholeRun(t)
		dir := exportOf(t, l, testRun)
		if err := os.Chmod(filepath.Join(dir, filepath.FromSlash(file)), 0); err != nil {
			t.Fatal(err)
		}
		if res, err := VerifyExport(dir, &Options{Trusted: b.trusted()}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v, %v", file, res.Faults, err)
		}
	}
}

// Whatever does not belong in an export is named, and why it was left alone.
func TestUnexpectedFilesSayWhatTheyAre(t *testing.T) {
	b, l := wholeRun(t)
	dir := exportOf(t, l, testRun)
	t.Chdir(dir) // the name of a socket must be short
	socket, err := net.Listen("unix", "d-socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, err := range []error{os.WriteFile("a-file", nil, 0o600), os.Mkdir("b-folder", 0o700), os.Symlink(recordsFile, "c-link"), syscall.Mkfifo("e-pipe", 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	res, err := VerifyExport(dir, &Options{Trusted: b.trusted()})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range res.Faults {
		got = append(got, f.Error())
	}
	if want := []string{
		"file_unexpected a-file: no record accounts for it",
		"file_unexpected b-folder: no record accounts for it",
		"file_unexpected c-link: it is a symbolic link, which is not followed",
		"file_unexpected d-socket: it is no regular file, and is not opened",
		"file_unexpected e-pipe: it is a named pipe, which is not opened",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
