package page

import (
	"archive/tar"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

// busy is who does something that is done once at a time.
type busy struct {
	mu  sync.Mutex
	who map[[nonceSize]byte]bool
}

// begin lets a session begin, if it does nothing of the kind yet; done lets it begin again.
func (b *busy) begin(s *session) (done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.who[s.nonce] {
		return nil, &problem{status: http.StatusTooManyRequests, title: "One check at a time", text: "Another verification, check or download of this session is still under way. Wait until it has ended."}
	}
	if b.who == nil {
		b.who = map[[nonceSize]byte]bool{}
	}
	b.who[s.nonce] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.who, s.nonce)
	}, nil
}

// proofPage is what there is to prove of a run and, once it was asked for, what was found.
type proofPage struct {
	*runView
	User, Executor string   // ids of the keys that the run publishes
	Trusted        []string // ids of those that verifications believe
	Report         *tipstaff.Report
	CanExport      bool
}

// proof shows what a verification would look at. It verifies nothing.
func (v *view) proof() error {
	page, err := v.proofOf()
	if err != nil {
		return err
	}
	return v.show("proof", "Proof · "+nameOf(v.run), page)
}

func (v *view) proofOf() (page proofPage, err error) {
	page = proofPage{runView: v.about(), CanExport: v.s.o.Export != nil}
	daemon, err := v.s.o.Daemon(v.ctx())
	if err != nil {
		return page, err
	}
	page.Trusted = daemon.Trusted
	first, err := v.block(0, 1)
	if err != nil {
		return page, err
	}
	if len(first) == 1 && first[0].Kind == tipstaff.KindIntentDraft {
		keys := tipstaff.BodyOf[tipstaff.IntentDraft](&first[0]).Keys
		page.User, page.Executor = keys.User.ID().String(), keys.Executor.ID().String()
	}
	return page, nil
}

// prove verifies the run, and shows what was found. A run that goes on is no fault.
func (v *view) prove() error {
	page, err := v.proofOf()
	if err != nil {
		return err
	}
	done, err := v.s.proving.begin(v.signed)
	if err != nil {
		return err
	}
	defer done()
	report, err := v.s.control.Runs.Verify(v.ctx(), tipstaff.VerifyRequest{Run: v.run.ID, Open: true})
	if err != nil {
		return err
	}
	page.Report = &report
	return v.show("proof", "Proof · "+nameOf(v.run), page)
}

// export hands out the folder of an export as one file.
func (v *view) export() error {
	if v.s.o.Export == nil {
		return v.missing()
	}
	done, err := v.s.proving.begin(v.signed)
	if err != nil {
		return err
	}
	defer done()
	dir, err := os.MkdirTemp("", "tipstaff-export-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := v.run.ID.String()
	if err := v.s.o.Export(v.ctx(), v.s.control.Runs, v.run.ID, filepath.Join(dir, name)); err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+safeName(name)+`.tar"`)
	if err := writeTar(v.w, os.DirFS(dir)); err != nil {
		v.s.o.Log.WarnContext(v.ctx(), "an export was broken off", "run", name, "error", err.Error())
		panic(http.ErrAbortHandler) // the client must not take half of it for all
	}
	return nil
}

// writeTar packs a folder. Equal files give equal bytes: no time, owner or order of the disk
// is in them.
func writeTar(to io.Writer, from fs.FS) error {
	t := tar.NewWriter(to)
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return addFile(t, from, name)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

func addFile(t *tar.Writer, from fs.FS, name string) error {
	f, err := from.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}
