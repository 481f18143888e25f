package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// assets is the digest of all assets: a part of their addresses, so that they never change.
var assets = sync.OnceValue(func() string {
	h := sha256.New()
	must(fs.WalkDir(assetFiles, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := assetFiles.ReadFile(name)
		fmt.Fprintf(h, "%s %d ", name, len(b))
		h.Write(b)
		return err
	}))
	return hex.EncodeToString(h.Sum(nil))[:16]
})

// sheets are the style sheets of all pages; a later one wins.
var sheets = []string{"tokens.css", "app.css", "run.css", "gate.css", "journal.css", "family.css", "proof.css", "chat.css", "lists.css", "everyone.css"}

// packed are the assets as they are sent, compressed: scripts, icons, and all sheets as one, so
// that a browser asks once before it paints.
var packed = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	pack := func(name string, parts ...string) {
		var out bytes.Buffer
		z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
		must(err)
		for _, part := range parts {
			b, err := assetFiles.ReadFile("assets/" + part)
			must(err)
			_, err = z.Write(b)
			must(err)
		}
		must(z.Close())
		all[name] = out.Bytes()
	}
	files, err := assetFiles.ReadDir("assets")
	must(err)
	for _, f := range files {
		if path.Ext(f.Name()) != ".css" {
			pack(f.Name(), f.Name())
		}
	}
	pack("page.css", sheets...)
	return all
})

// asset gives a script, the style sheet or the icon. Nobody needs to sign in for them.
func (s *Site) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	b := packed()[name]
	if b == nil || r.PathValue("digest") != assets() {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(b)
		return
	}
	plain, err := gzip.NewReader(bytes.NewReader(b))
	must(err)
	_, _ = io.Copy(w, plain)
}

// templates are those of pages, by name, each with the frame around it. They are read when
// somebody looks: other commands need not wait for it.
var templates = sync.OnceValue(func() map[string]*template.Template {
	shared := template.Must(template.New("frame").Funcs(funcs).ParseFS(templateFiles, "templates/frame.html", "templates/part_*.html"))
	all := map[string]*template.Template{}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	must(err)
	for _, name := range names {
		base := strings.TrimSuffix(path.Base(name), ".html")
		if base != "frame" && !strings.HasPrefix(base, "part_") {
			all[base] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, name))
		}
	}
	return all
})

// must is for what can only fail in a build that is broken.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// frame is what stands around every page.
type frame struct {
	Title   string
	Section string // of the rail
	Page    any
	Assets  string
	Now     time.Time
	Look    look
	Signed  *session // nil: nobody
	Form    string   // what forms carry
	Waiting int      // gates that wait for this person
	Here    string   // the address, to come back to
}

// Who is on whose behalf the page is shown.
func (f frame) Who() tipstaff.Caller { return f.Signed.Caller }

// show answers with a page.
func (v *view) show(name, title string, page any) error {
	f := frame{Title: title, Section: v.section(), Page: page, Assets: assets(), Now: v.now, Look: lookOf(v.r), Signed: v.signed, Here: v.r.URL.RequestURI()}
	if v.signed != nil {
		f.Form = v.signed.form()
	}
	t, block := templates()[name], "frame"
	if part := v.r.FormValue("part"); part != "" && v.status == http.StatusOK {
		if block = "part-" + part; t.Lookup(block) == nil {
			return &problem{status: http.StatusNotFound, title: "There is no such part", text: "The page may be of another version."}
		}
	}
	if v.signed != nil && block == "frame" { // a part does not count: streams draw them several times a second
		if inbox, err := v.s.control.Runs.Inbox(v.ctx(), tipstaff.InboxRequest{Limit: 1}); err == nil {
			f.Waiting = inbox.Total
		}
	}
	v.out = &reply{v: v}
	if err := t.ExecuteTemplate(v.out, block, f); err != nil {
		return v.out.broken(err)
	}
	v.out.flush()
	return nil
}

// section is the entry of the rail that a page belongs to.
func (v *view) section() string {
	rest, _ := strings.CutPrefix(v.r.URL.Path, "/ui/")
	first, _, _ := strings.Cut(rest, "/")
	if first == "" {
		return "inbox"
	}
	return first
}

// query is an encoded query of names and values.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q.Encode()
}

// address is that of a page with a query of names and values. The last value of a name counts,
// and one that is empty is left out.
func address(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if q.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			q.Del(pairs[i])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// digits is a number for an address, where 0 is left out.
func digits(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
