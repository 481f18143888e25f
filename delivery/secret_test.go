package delivery

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
)

const (
	apiKey = "sk-live-0123456789abcdefghij"
	pemKey = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----\n"
)

// A credential that comes into a difference is not handed over, and stands in nothing that is
// recorded: neither in the patch nor in the list, the gate, a ref or a later run.
func TestACredentialInTheDifference(t *testing.T) {
	many := strings.Repeat("a line that nobody cares for, of some length\n", 200_000) // 9 MB
	for _, c := range []struct {
		name string
		work func(p *play, dir string)
		in   string
	}{
		{"in a line", func(p *play, dir string) { p.puts(dir, "src/a.txt", "a\nkey = "+apiKey+"\n") }, "src/a.txt"},
		{"in a new file", func(p *play, dir string) { p.puts(dir, ".env", "KEY="+apiKey) }, ".env"},
		{"of several lines", func(p *play, dir string) { p.puts(dir, "key.pem", pemKey) }, "key.pem"},
		{"one line of several", func(p *play, dir string) { p.puts(dir, "x", strings.Split(pemKey, "\n")[1]) }, "x"},
		{"in base64 of several lines", func(p *play, dir string) {
			text := base64.StdEncoding.EncodeToString([]byte("user:" + apiKey + ":more"))
			p.puts(dir, "x", text[:20]+"\n"+text[20:]+"\n")
		}, "x"},
		{"in a name", func(p *play, dir string) { p.puts(dir, "log-"+apiKey+".txt", "x\n") }, "log-$env:API_KEY.txt"},
		{"in the name of a folder", func(p *play, dir string) { p.puts(dir, apiKey+"/x", "x\n") }, "$env:API_KEY/x"},
		{"in a binary file", func(p *play, dir string) { p.puts(dir, "b.bin", "\x00\x01"+apiKey+"\x00") }, "b.bin"},
		{"in a large file", func(p *play, dir string) { p.puts(dir, "large.txt", many+apiKey+"\n"+many) }, "large.txt"},
		{"where two pieces of a large file meet", func(p *play, dir string) {
			p.puts(dir, "large.bin", "\x00"+strings.Repeat("x", pieceShared+pieceSize-10)+apiKey+strings.Repeat("x", 8<<20))
		}, "large.bin"},
		{"where a link leads", func(p *play, dir string) { must(p.bed, os.Symlink("/srv/"+apiKey, dir+"/l")) }, "l"},
		{"in a file that became a link", func(p *play, dir string) {
			must(p.bed, os.Remove(dir+"/README"))
			must(p.bed, os.Symlink("/srv/"+apiKey, dir+"/README"))
			p.puts(dir, "src/b.txt", "b2\n")
		}, "README"},
		{"where the patch is cut", func(p *play, dir string) {
			for _, name := range []string{"1", "2", "3"} {
				p.puts(dir, name, strings.Repeat("\n", 3_500_000)+map[string]string{"3": apiKey}[name])
			}
		}, "3"},
		{"in one of many", func(p *play, dir string) {
			for _, name := range []string{"1", "2", "3", "4"} {
				p.puts(dir, name, many)
			}
			p.puts(dir, "5", many+apiKey)
		}, "5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := changing(t, c.work)
			p.known = redact.New(map[string]string{"API_KEY": apiKey, "PEM": pemKey})
			p.drive()
			s := p.subject("delivery#1")
			if got := strings.Join(s.Secret, " "); got != c.in {
				t.Errorf("in %q, not in %q", got, c.in)
			}
			if blocked(s) != "approve:secret_in_diff apply:secret_in_diff" || s.DefaultAction != tipstaff.DeliverFix {
				t.Errorf("%s; suggested: %s", blocked(s), s.DefaultAction)
			}
			now, err := p.open().Look(context.Background(), s)
			if must(p.bed, err); len(now.Blocked) != 2 || now.Blocked[0].Code != tipstaff.BlockSecret {
				t.Errorf("as things are now: %+v", now)
			}
			p.holdsNowhere(apiKey)
			p.holdsNowhere(strings.Split(pemKey, "\n")[1])
			if refs := p.user("for-each-ref", "refs/tipstaff/"+runID); s.Commit != "" || refs != "" {
				t.Errorf("commit %q, refs %q", s.Commit, refs)
			}
		})
	}
}

// What a patch does not show is read as it was recorded: in the worktree somebody may have
// taken it away since, and a link that became one of a large file is left out with that.
func TestACredentialThatNoPatchShows(t *testing.T) {
	b := newBed(t)
	large := strings.Repeat("\n", 3_500_000)
	for _, name := range []string{"1", "2", "3"} {
		b.write(name, large)
	}
	b.user("add", "-A")
	b.user("commit", "-qm", "large files")
	r := b.open()
	w := b.worktree(r)
	for _, name := range []string{"1", "2", "3"} {
		must(b, os.Remove(filepath.Join(w.Path, name)))
		must(b, os.Symlink(map[string]string{"3": "/srv/" + apiKey}[name]+"/x", filepath.Join(w.Path, name)))
	}
	writeFile(t, filepath.Join(w.Path, "a.bin"), "\x00"+apiKey)
	d := b.snapshot(r, w)
	for _, name := range []string{"3", "a.bin"} {
		must(b, os.Remove(filepath.Join(w.Path, name)))
	}
	if parts := len(tipstaff.PatchParts(d.Patch)); !d.Truncated || parts != 4 {
		t.Errorf("the patch has %d parts, truncated: %v", parts, d.Truncated)
	}
	holding, err := d.conceal(context.Background(), r.With(w), redact.New(map[string]string{"API_KEY": apiKey}).Bytes)
	if must(b, err); strings.Join(holding, " ") != "3 a.bin" {
		t.Errorf("in %v", holding)
	}
}

// holdsNowhere looks for a text in all that was recorded.
func (p *play) holdsNowhere(text string) {
	p.t.Helper()
	for digest, blob := range p.blobs {
		if bytes.Contains(blob, []byte(text)) {
			p.t.Errorf("%s holds it: %q", digest, blob[max(0, bytes.Index(blob, []byte(text))-80):][:120])
		}
	}
	for _, r := range p.log.Records(runID) {
		if bytes.Contains(r.Body, []byte(text)) {
			p.t.Errorf("record %s holds it: %s", r.Kind, r.Body)
		}
	}
}

// One that the difference takes away, or only stands beside, keeps nothing from being handed
// over. It is recorded as little.
func TestACredentialThatGoes(t *testing.T) {
	p := changing(t, func(p *play, dir string) { p.puts(dir, "src/a.txt", "a\nnew\n") })
	p.bed.write("src/a.txt", "a\n"+apiKey+"\n")
	p.user("commit", "-qam", "oh")
	base, err := p.open().Resolve(context.Background(), "HEAD")
	must(p.bed, err)
	p.spec.Base = base
	p.known = redact.New(map[string]string{"API_KEY": apiKey})
	p.drive()
	s := p.subject("delivery#1")
	if blocked(s) != "" || len(s.Secret) > 0 || s.Commit == "" {
		t.Errorf("%s, %v", blocked(s), s.Secret)
	}
	p.holdsNowhere(apiKey)
	if !strings.Contains(string(p.blobs[s.Patch]), leftOut) {
		t.Errorf("the patch does not say that something was left out: %s", p.blobs[s.Patch])
	}
}

// What a check prints is recorded without credentials: it may print what it was given.
func TestACheckTellsNoCredential(t *testing.T) {
	p := changing(t, func(p *play, dir string) { p.puts(dir, "src/a.txt", "a\nnew\n") })
	p.spec.Deliver = &document.Deliver{Checks: []document.DeliverCheck{{Name: "tells", Run: []string{"tells"}}}}
	p.known = redact.New(map[string]string{"API_KEY": apiKey})
	p.drive()
	s := p.subject("delivery#1")
	if len(s.Checks) != 1 || string(p.blobs[s.Checks[0].Output]) != "the key is $env:API_KEY" {
		t.Errorf("%+v: %s", s.Checks, p.blobs[s.Checks[0].Output])
	}
	p.holdsNowhere(apiKey)
}

// The difference that a step leaves is recorded without credentials, too.
func TestACredentialInTheDifferenceOfAStep(t *testing.T) {
	b := newBed(t)
	r := b.open()
	w := b.worktree(r)
	writeFile(t, filepath.Join(w.Path, apiKey), apiKey)
	known := redact.New(map[string]string{"API_KEY": apiKey})
	var kept [][]byte
	put := func(_ context.Context, data []byte) (string, error) {
		kept = append(kept, data)
		return "sha256:0", nil
	}
	got, _, err := Recorded(context.Background(), r, w, "work#1", put, known.Bytes)
	must(b, err)
	for _, blob := range append(kept, flow.JSON(got)) {
		if bytes.Contains(blob, []byte(apiKey)) {
			t.Errorf("%s", blob)
		}
	}
	if got.Files != 1 || len(kept) != 2 {
		t.Errorf("%+v, %d documents", got, len(kept))
	}
}
