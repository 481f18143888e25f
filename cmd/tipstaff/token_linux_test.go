package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The token of a daemon is outside of its workspace, for its user alone. One that an earlier
// version has left inside is revoked.
func TestTheTokenLiesOutsideOfTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest)
	state := filepath.Join(t.TempDir(), "state")
	w.Env = append(w.Env, "TIPSTAFF_STATE="+state)
	w.Must(3, "serve", "--token").Says(t, "there is no token", "tipstaff serve")
	w.Write(".tipstaff/serve.token", strings.Repeat("0", 64)+"\n")
	w.Check(os.Chmod(w.Path(".tipstaff", "serve.token"), 0o600))
	s := &serving{workspace: w, addr: "127.0.0.1:0"}
	s.begin()
	if filepath.Dir(s.tokenFile) != filepath.Join(state, "serve.token") || fileExists(w.Path(".tipstaff", "serve.token")) {
		t.Errorf("it lies in %s", s.tokenFile)
	}
	for path, mode := range map[string]os.FileMode{s.tokenFile: 0o600, filepath.Dir(s.tokenFile): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if got := strings.TrimSpace(w.Must(0, "serve", "--token").Out); got != s.token() || strings.Trim(got, "0") == "" {
		t.Errorf("--token prints %q", got)
	}
	if res, body := s.http("GET", "/runs", "", "Authorization", "Bearer "+strings.Repeat("0", 64)); res.StatusCode != 401 {
		t.Errorf("the old one is answered %s: %s", res.Status, body)
	}
	if res, _ := s.http("GET", "/runs", ""); res.StatusCode != 200 {
		t.Errorf("the new one is answered %s", res.Status)
	}
}

// A daemon that runs takes another token at once, and refuses the one before.
func TestATokenIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, manifest)
	before := s.token()
	link := strings.TrimSpace(s.Must(0, "serve", "--link", "--addr", s.httpAddr).Out)
	after := strings.TrimSpace(s.Must(0, "serve", "--rotate").Out)
	if after == before || after != s.token() {
		t.Fatalf("%q became %q, and the file has %q", before, after, s.token())
	}
	if res, body := s.http("GET", "/runs", "", "Authorization", "Bearer "+before); res.StatusCode != 401 || !strings.Contains(string(body), "was replaced") {
		t.Errorf("the one before is answered %s: %s", res.Status, body)
	}
	if res, body := s.http("GET", "/runs", ""); res.StatusCode != 200 {
		t.Errorf("the new one is answered %s: %s", res.Status, body)
	}
	if out := s.away.Must(3, "ls").Err; !strings.Contains(out, "was replaced") {
		t.Errorf("over gRPC the one before is told %s", out)
	}
	if status, text := opened(t, link); strings.Contains(text, "Sign in as local") {
		t.Errorf("a link of the one before still lets in: %d %s", status, text)
	}
	s.Must(0, "ls", "--server", s.addr)
	r := s.request("GET", "/runs", "")
	s.Check(os.Remove(s.tokenFile))
	res, err := http.DefaultClient.Do(r)
	s.Check(err)
	res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("a token that was removed is answered %s", res.Status)
	}
}

func TestWhereNoTokenIsKept(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest)
	w.Env = append(w.Env, "HOME=", "TIPSTAFF_STATE=", "XDG_STATE_HOME=")
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0"}, {"serve", "--token"}} {
		w.Must(3, args...).Says(t, "TIPSTAFF_STATE")
	}
	named := newWorkspace(t, manifest)
	named.Write("tipstaff.yaml", named.Read("tipstaff.yaml")+"\nserve: {tokens: {alice: {token: $env:ALICE, expires: 2020-01-01}}}\n")
	named.Must(3, "serve", "--token").Says(t, "serve.tokens")
	named.Must(3, "serve", "--rotate").Says(t, "serve.tokens")
	named.Must(2, "serve", "--token", "--link").Says(t, "--link")
	named.Must(1, "doctor").Says(t, "token_expires", "the token of alice expired at")
}
