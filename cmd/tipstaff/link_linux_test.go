package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// opened is the status and the text of an address.
func opened(t *testing.T, address string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(r.URL.Hostname(), ".localhost") { // as browsers take it
		r.Host, r.URL.Host = r.URL.Host, "127.0.0.1:"+r.URL.Port()
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// serve --link gives another link to the page of the daemon that runs: by the token of the
// workspace, or by that of the environment.
func TestALinkToThePage(t *testing.T) {
	t.Parallel()
	s := serveWith(t, nil, manifest)
	for name, at := range map[string]*workspace{"of its workspace": s.workspace, "elsewhere": s.away} {
		link := strings.TrimSpace(at.Must(0, "serve", "--link", "--addr", s.httpAddr).Out)
		if status, text := opened(t, link); !regexp.MustCompile(`^http://[0-9a-f]{20}\.localhost`+strings.TrimPrefix(s.httpAddr, "127.0.0.1")+`/ui/signin\?code=`).MatchString(link) || status != 200 || !strings.Contains(text, "Sign in as local") {
			t.Errorf("the link %s is %s: %d %s", name, link, status, text)
		}
	}
	stranger := newWorkspace(t, manifest)
	stranger.Must(3, "serve", "--link", "--addr", s.httpAddr).Says(t, "there is no token", "TIPSTAFF_TOKEN")
	stranger.Env = append(stranger.Env, "TIPSTAFF_TOKEN=of-somebody-else-entirely")
	stranger.Must(3, "serve", "--link", "--addr", s.httpAddr).Says(t, "the token is not known here")
	s.Must(3, "serve", "--link", "--addr", "127.0.0.1:1").Says(t, "no daemon answers", "--addr")
}

// Without its page a daemon answers programs alone.
func TestNoPage(t *testing.T) {
	t.Parallel()
	s := serveWith(t, []string{"--no-page"}, manifest)
	for _, path := range []string{"/", "/ui/", "/ui/signin"} {
		if status, text := opened(t, "http://"+s.httpAddr+path); status != 401 || strings.Contains(text, "<html") {
			t.Errorf("%s is answered %d %s", path, status, text)
		}
	}
	s.Must(2, "serve", "--link", "--addr", s.httpAddr).Says(t, "has no page", "--no-page")
}

// A daemon with TLS is known by the very certificate that it was started with, whoever has
// signed that and whatever it is called; to another one no token is sent.
func TestALinkOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	s := serveWith(t, []string{"--tls-cert", cert, "--tls-key", key}, manifest)
	link := strings.TrimSpace(s.Must(0, "serve", "--link", "--addr", s.httpAddr, "--tls-cert", cert, "--tls-key", key).Out)
	if !strings.HasPrefix(link, "https://"+s.httpAddr+"/ui/signin?code=") {
		t.Errorf("the link is %s", link)
	}
	other, otherKey := selfSigned(t)
	s.Must(3, "serve", "--link", "--addr", s.httpAddr, "--tls-cert", other, "--tls-key", otherKey).Says(t, "it shows another certificate than "+other)
	s.Must(2, "serve", "--link", "--addr", s.httpAddr, "--tls-cert", key, "--tls-key", key).Says(t, "is not a certificate in PEM")
}
