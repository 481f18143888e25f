package runner

import (
	"net/url"
	"strconv"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// watched has a drive told of in spans, in the trace of whoever asked for the run.
func (d *drive) watched(job flow.Job) (watched flow.Job, end func()) {
	if d.r.Watch == nil {
		return job, func() {}
	}
	config := workspace.Telemetry{}
	if m := d.now().manifest; m != nil {
		config = m.Telemetry
	}
	return d.r.Watch(job, config, d.program().shared().draft.Trace, d.invocation)
}

// invocation is what spans tell of the turns of an agent.
func (d *drive) invocation(name string) (of agent.Invocation) {
	env := d.now()
	c := env.program.shared()
	if t := c.text.turn(); t != nil { // else each has a session of its own
		of.Conversation = t.Session
	}
	if m, ok := env.manifest.Model(c.agents.settled[name].Model); ok {
		of.Provider = m.Provider
		of.Host, of.Port = address(m.BaseURL)
	}
	return of
}

// address is where a model is reached; "": at the vendor's own address, or one that
// is not written down.
func address(base string) (host string, port int) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" {
		return "", 0
	}
	if port, err = strconv.Atoi(u.Port()); err != nil {
		port = map[string]int{"http": 80, "https": 443}[u.Scheme]
	}
	return u.Hostname(), port
}
