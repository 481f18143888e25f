//go:build unix

package golden

import (
	"bytes"
	"compress/bzip2"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// dumped is the schema that the dumps are of.
const dumped = "goldenfrozen"

// A dump of a store in Postgres that an earlier version has made is loaded into a server:
// its runs verify, replay, and go on as they would have.
func TestGoldenDumpInPostgres(t *testing.T) {
	server := os.Getenv("TIPSTAFF_POSTGRES")
	if server == "" {
		t.Skip("TIPSTAFF_POSTGRES names no server: make test-scale starts one")
	}
	manifests, err := filepath.Glob("postgres/v*/manifest.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("there is no dump: %v", err)
	}
	for _, file := range manifests {
		g := readGeneration(t, filepath.Dir(file))
		t.Run(filepath.Base(g.dir), func(t *testing.T) {
			t.Parallel()
			w := &workspace{cmdtest.New(t, cmdtest.Released, 2*time.Minute), g.Workspaces["store"], map[string]frozen{}}
			for _, e := range w.runs {
				w.frozen[e.Name] = g.frozen["store "+e.Name]
			}
			w.Check(untar(filepath.Join(g.dir, "workspace.tar.bz2"), w.Dir))
			w.Check(os.Mkdir(w.Path("exported"), 0o755))
			w.Env = append(w.Env, "TIPSTAFF_STORE="+w.load(server, filepath.Join(g.dir, "store.sql.bz2"), fmt.Sprintf("golden%d_dump_%s", os.Getpid(), filepath.Base(g.dir))))
			w.allFrozen()
			for _, e := range w.runs {
				w.goesOn(e)
			}
			w.exportsKept()
			w.Must(0, "memory", "rebuild", "--check")
		})
	}
}

// load loads a dump into a schema of a server, and returns the address of the store. The
// schema goes with the test.
func (w *workspace) load(server, file, schema string) (address string) {
	w.Helper()
	f, err := os.Open(file)
	w.Check(err)
	defer f.Close()
	sql, err := io.ReadAll(bzip2.NewReader(f))
	w.Check(err)
	do := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pgconn.Connect(ctx, server)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		return conn.Exec(ctx, sql).Close()
	}
	drop := "DROP SCHEMA IF EXISTS " + schema + " CASCADE"
	w.Check(do(drop))
	w.Cleanup(func() { w.Check(do(drop)) })
	w.Check(do(strings.ReplaceAll(string(sql), dumped, schema)))
	u, err := url.Parse(server)
	w.Check(err)
	u.RawQuery = url.Values{"search_path": {schema}}.Encode()
	return u.String()
}

// exportsKept checks that whatever has happened since, exports begin with the frozen records.
func (w *workspace) exportsKept() {
	w.Helper()
	for _, e := range w.runs {
		w.Must(0, "export", w.frozen[e.Name].run, "after-"+e.Name)
		lines := bytes.SplitAfter([]byte(w.Read("after-"+e.Name+"/records.ndjson")), []byte("\n"))
		w.areFrozen(e, lines[:w.frozen[e.Name].seq])
	}
}
