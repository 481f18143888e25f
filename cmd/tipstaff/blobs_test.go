package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/postgres"
)

// largePlan has payloads of more than a megabyte in a call, in results and in its outputs,
// and a program that tells its environment.
const largePlan = `-- large.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: env, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, env]}}
    - {id: read, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: large.txt, max_bytes: 8000000}}
    - {id: write, kind: tool_call, tool: "mcp://builtin/write_file@1.0.0", args: {path: copy.txt, content: "${read.output.text}"}}
outputs: {text: "${read.output.text}"}
`

// A run with large payloads over Postgres and a bucket verifies, and its export has the bytes
// that it has with the payloads in the database.
func TestLargePayloadsInABucket(t *testing.T) {
	t.Parallel()
	server, blobs := os.Getenv("TIPSTAFF_POSTGRES"), os.Getenv("TIPSTAFF_S3")
	if server == "" || blobs == "" {
		t.Skip("TIPSTAFF_POSTGRES or TIPSTAFF_S3 names no server: make test-scale starts them")
	}
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	at.RawQuery = url.Values{"search_path": {fmt.Sprintf("blobs%d", os.Getpid())}}.Encode()
	secret := os.Getenv("AWS_SECRET_ACCESS_KEY")
	w := newWorkspace(t, manifest, largePlan)
	w.Env = []string{"TIPSTAFF_STORE=" + at.String(), "AWS_ACCESS_KEY_ID=" + os.Getenv("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY=" + secret}
	w.Write("large.txt", strings.Repeat("a line that is read and written\n", 100_000))

	w.Must(2, "run", "large.yaml", "--blobs", "elsewhere").Says(t, "file:///shared/folder")
	w.Must(3, "run", "large.yaml", "--blobs", "file:///no/such/folder").Says(t, "see that the folder is there")
	if runs := w.runs(); len(runs) != 0 {
		t.Errorf("a run began without a place for its payloads: %v", runs)
	}
	w.Must(0, "run", "large.yaml", "--unattended", "--yes", "--detach", "--blobs", blobs) // its process is told
	w.Must(0, "watch", "@", "--blobs", blobs)
	w.Must(0, "verify", "@", "--blobs", blobs)
	w.Must(0, "export", "@", "elsewhere", "--blobs", blobs)
	w.Must(3, "verify", "@").Says(t, blobs, "--blobs or TIPSTAFF_BLOBS")

	store, err := postgres.Open(t.Context(), at.String(), &postgres.Options{Folder: w.Path(".tipstaff"), UserKey: true})
	if err != nil {
		t.Fatal(err)
	}
	exported := contents(t, w.Path("elsewhere"))
	large := 0
	for name, data := range exported {
		if strings.HasPrefix(name, "blobs/") && len(data) > 1<<20 {
			large++
			if _, err := store.PutBlob(t.Context(), data); err != nil { // which has no bucket
				t.Error(err)
			}
		}
		for _, hidden := range []string{secret, "AWS_ACCESS_KEY_ID=", "TIPSTAFF_BLOBS=", "TIPSTAFF_STORE="} {
			if bytes.Contains(data, []byte(hidden)) {
				t.Errorf("%s tells %s", name, hidden)
			}
		}
	}
	if err := store.Close(); err != nil || large < 2 {
		t.Fatalf("%d large payloads of %d files, %v", large, len(exported), err)
	}
	w.Must(0, "verify", "@")
	w.Must(0, "export", "@", "within")
	within := contents(t, w.Path("within"))
	for name, data := range exported {
		if !bytes.Equal(within[name], data) {
			t.Errorf("%s differs", name)
		}
	}
	if len(within) != len(exported) {
		t.Errorf("%d files, and %d with the payloads in the database", len(exported), len(within))
	}
	folder := emptyWorkspace(t)
	folder.Env = []string{"TIPSTAFF_BLOBS=" + blobs}
	folder.Must(2, "ls").Says(t, "is for a store in a database")
}

// contents are the files of a folder by their names.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			found[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
