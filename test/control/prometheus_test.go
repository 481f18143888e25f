//go:build linux

package control

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// Prometheus scrapes the daemon with its token, and finds what a run has done.
func TestPrometheus(t *testing.T) {
	b := newBed(t)
	prometheus := perhaps(t, cached(t, "control", "prometheus", "usr", "bin", "prometheus"))
	promtool := perhaps(t, cached(t, "control", "prometheus", "usr", "bin", "promtool"))
	d := b.serve()
	run := d.submit(b.Read("ask.yaml"))
	gate := d.gate(run)

	text := string(d.ask("GET", "/metrics", nil))
	if lint := b.run(program{argv: []string{promtool, "check", "metrics"}, in: text}); lint.code != 0 || lint.out+lint.err != "" {
		t.Errorf("promtool says:\n%s%s", lint.out, lint.err)
	}

	address := freeAddress(t)
	b.Write("token", d.token)
	b.Write("prometheus.yml", fmt.Sprintf(`
scrape_configs:
  - job_name: tipstaff
    scrape_interval: 200ms
    scrape_timeout: 200ms
    authorization: {credentials_file: %q}
    static_configs: [{targets: [%q]}]
  - job_name: stranger
    scrape_interval: 200ms
    scrape_timeout: 200ms
    static_configs: [{targets: [%q]}]
`, b.Path("token"), d.url[len("http://"):], d.url[len("http://"):]))
	c := exec.Command(prometheus, "--config.file="+b.Path("prometheus.yml"), "--storage.tsdb.path="+b.Path("series"), "--web.listen-address="+address, "--log.level=error")
	c.Stderr = &prefixed{t: t}
	b.Check(c.Start())
	defer c.Wait()
	defer c.Process.Signal(syscall.SIGTERM)

	// value asks Prometheus for one number, and reports whether it has one.
	value := func(query string) (float64, bool) {
		resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
		if err != nil {
			return 0, false // it is starting
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		b.Check(err)
		if resp.StatusCode != http.StatusOK {
			return 0, false
		}
		var answer struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		b.decode(body, &answer)
		if len(answer.Data.Result) != 1 {
			return 0, false
		}
		n, err := strconv.ParseFloat(answer.Data.Result[0].Value[1].(string), 64)
		b.Check(err)
		return n, true
	}
	until := func(query string, want float64) {
		t.Helper()
		b.Until(fmt.Sprintf("%s to be %v", query, want), func() bool { n, ok := value(query); return ok && n == want })
	}
	until(`up{job="tipstaff"}`, 1)
	until(`up{job="stranger"}`, 0) // who has no token learns nothing
	until(`tipstaff_tool_calls_total{tool="json_query",outcome="ok"}`, 1)
	until(`tipstaff_runs_driving`, 0)
	d.post("/runs/"+run+"/gates/"+gate+"/decision", map[string]any{"action": "approve", "decided_by": "prometheus", "resume": true}, nil)
	until(`tipstaff_runs_total{state="completed"}`, 1)
	until(`tipstaff_tool_calls_total{tool="json_query",outcome="ok"}`, 2)
	b.wellDone(run, "prometheus")
}

// prefixed has a test tell what a program says.
type prefixed struct{ t testing.TB }

func (p *prefixed) Write(text []byte) (int, error) {
	p.t.Logf("it says: %s", text)
	return len(text), nil
}
