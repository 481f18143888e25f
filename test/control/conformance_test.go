//go:build linux

package control

import (
	"encoding/json"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// The protocol's suite plays the client of the daemon's /mcp, for a revision with sessions and
// for one without. What does not apply to Tipstaff stands in conformance.yaml with the reason;
// anything else that fails, and anything listed that passes, is a fault.
func TestConformance(t *testing.T) {
	b := newBed(t)
	suite := perhaps(t, cached(t, "mcp", "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"))
	excused := excuses(t)
	seen := map[string]bool{}
	proxy := b.serve().bearing()
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			said := b.run(program{argv: []string{node(t), suite, "server", "--url", proxy + "/mcp", "--suite", "all", "--spec-version", version, "--output-dir", dir}})
			judged := judgements(t, dir)
			if len(judged) < 20 {
				t.Fatalf("the suite has judged %d scenarios\n%s\n%s", len(judged), cmdtest.Clip(said.out), cmdtest.Clip(said.err))
			}
			for name, v := range judged {
				seen[name] = true
				reason, whole := excused[name]
				for check, status := range v {
					_, one := excused[name+":"+check]
					seen[name+":"+check] = true
					if bad := status == "FAILURE" || status == "WARNING"; bad && !whole && !one {
						t.Errorf("%s: %s is a %s", name, check, status)
					} else if !bad && one {
						t.Errorf("%s: %s passes: take it out of conformance.yaml", name, check)
					}
				}
				if statuses := slices.Collect(maps.Values(v)); whole && !slices.Contains(statuses, "FAILURE") && !slices.Contains(statuses, "WARNING") {
					t.Errorf("%s passes: take it out of conformance.yaml, which says: %s", name, reason)
				}
			}
		})
	}
	for entry := range excused {
		if !seen[entry] && !t.Failed() {
			t.Errorf("conformance.yaml lists %s, which the suite does not have", entry)
		}
	}
}

// excuses are the reasons, by scenario, or by scenario:check where the rest of it must pass.
func excuses(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Reason    string
		Scenarios []string
	}
	if err := yaml.UnmarshalWithOptions(data, &groups, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range groups {
		for _, s := range g.Scenarios {
			if g.Reason == "" || all[s] != "" {
				t.Errorf("conformance.yaml: %s is there twice, or without a reason", s)
			}
			all[s] = g.Reason
		}
	}
	return all
}

// resultFolder is what the suite calls the folder of a scenario: with the time in it.
var resultFolder = regexp.MustCompile(`^server-(.*)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// judgements are the findings of the suite by scenario and check. A check that failed once has
// failed.
func judgements(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []struct{ ID, Status string }
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatal(err)
		}
		name := resultFolder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))[1]
		found := map[string]string{}
		for _, c := range checks {
			if worst := found[c.ID]; worst != "FAILURE" && worst != "WARNING" {
				found[c.ID] = c.Status
			}
		}
		all[name] = found
	}
	return all
}

// bearing is where whoever comes without a token is given one: the suite has none. All else
// of a request, and whatever it pretends to be, reaches the daemon.
func (d *daemon) bearing() string {
	d.Helper()
	target, err := url.Parse(d.url)
	d.Check(err)
	var own string
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // of clients that go away
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = strings.Replace(r.In.Host, own, target.Host, 1)
			if origin := r.In.Header.Get("Origin"); origin != "" {
				r.Out.Header.Set("Origin", strings.Replace(origin, own, target.Host, 1))
			}
			r.Out.Header.Set("Authorization", d.bearer())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	})
	d.Cleanup(proxy.Close)
	own = strings.TrimPrefix(proxy.URL, "http://")
	return proxy.URL
}
