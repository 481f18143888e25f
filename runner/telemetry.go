package runner

import (
	"net/url"
	"strconv"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// watched has a drive told of in spans, in the trace of whoever asked for the run.
func (c *course) watched(job flow.Job) (watched flow.Job, end func()) {
	var telemetry *agent.Telemetry
	if c.r.Telemetry != nil {
		config := workspace.Telemetry{}
		if m := c.now().manifest; m != nil {
			config = m.Telemetry
		}
		telemetry = c.r.Telemetry(config)
	}
	return telemetry.Watch(job, tool.ParseTraceparent(c.program().draft.Trace), c.invocation)
}

// invocation is what spans tell of the turn at a path.
func (c *course) invocation(path string) (agent.Invocation, bool) {
	k := c.now()
	found, ok := k.program.turns.Load(path)
	if !ok {
		return agent.Invocation{}, false
	}
	turn := found.(*liveTurn)
	of := agent.Invocation{Agent: turn.agent, Model: turn.settings.ModelName, Desk: &k.program.desk}
	if t := k.program.doc.Turn; t != nil { // else each has a session of its own
		of.Conversation = t.Session
	}
	if m, ok := k.manifest.Model(k.program.crew.agents[turn.agent].Model); ok {
		of.Provider = m.Provider
		of.Host, of.Port = address(m.BaseURL)
	}
	return of, true
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
