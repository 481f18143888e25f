package web

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Health is what whoever watches over a server wants to know.
type Health struct {
	OK       bool          `json:"ok"`
	Reason   tipstaff.Code `json:"reason,omitempty"` // why nothing is driven: workspace_untrusted
	UptimeS  int64         `json:"uptime_s"`
	InFlight int           `json:"in_flight"` // runs that are driven
	Queued   int           `json:"queued"`    // runs that wait for their turn
	SSE      Stats         `json:"sse"`
}

func (c *call) health() (any, error) {
	h := Health{OK: c.s.serving.Err() == nil, UptimeS: int64(time.Since(c.s.began).Seconds()), SSE: c.s.Stats()}
	if c.s.o.Load != nil {
		h.InFlight, h.Queued = c.s.o.Load()
	}
	if c.s.o.Untrusted != nil && c.s.o.Untrusted() != "" {
		h.Reason = tipstaff.WorkspaceUntrusted
	}
	if !h.OK {
		return with{http.StatusServiceUnavailable, h}, nil
	}
	return h, nil
}

// Readiness is whether a server should be given work.
type Readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not
	// Left is how many runs wait that this server leaves to others, and Lacks what it does not
	// have of what they need.
	Left  int      `json:"left,omitempty"`
	Lacks []string `json:"lacks,omitempty"`
}

func (c *call) readiness() (any, error) {
	err := c.s.serving.Err()
	if err != nil {
		err = errStopping
	} else if c.s.o.Ready != nil {
		err = c.s.o.Ready()
	}
	if err != nil {
		return with{http.StatusServiceUnavailable, Readiness{Reason: err.Error()}}, nil
	}
	r := Readiness{Ready: true}
	if c.s.o.Lacks != nil {
		r.Left, r.Lacks = c.s.o.Lacks()
	}
	return r, nil
}

func (c *call) version() (any, error) { return c.s.o.Version, nil }

// metrics are of all users together: they name none.
func (c *call) metrics() (any, error) {
	if !tipstaff.CallerFrom(c.ctx()).May(tipstaff.ScopeRead) {
		return nil, tipstaff.Errorf(tipstaff.Forbidden, "counters are for tokens with the scope %s", tipstaff.ScopeRead)
	}
	return c.hand(c.s.o.Metrics)
}

// SigninCode is a link to the page.
type SigninCode struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func (c *call) signinCode() (any, error) {
	if c.s.o.Page == nil {
		return nil, refuse(http.StatusNotFound, "this server has no page")
	}
	at := "http://" + c.s.o.Page.At(c.r.Host)
	if c.r.TLS != nil {
		at = "https://" + c.r.Host
	}
	path, expires := c.s.o.Page.Code(c.bearer)
	return with{http.StatusCreated, SigninCode{at + path, expires}}, nil
}

// mcp hands a request on, as one of that surface.
func (c *call) mcp() (any, error) {
	caller := tipstaff.CallerFrom(c.ctx())
	caller.Surface = "mcp"
	ctx, stop := c.s.untilStopped(tipstaff.WithCaller(c.ctx(), caller))
	defer stop()
	c.r = c.r.WithContext(ctx)
	text, err := c.body()
	if err != nil {
		return nil, err
	}
	c.r.Body = io.NopCloser(bytes.NewReader(text))
	return c.hand(c.s.o.MCP)
}

func (c *call) hand(to http.Handler) (any, error) {
	if to == nil {
		return nil, refuse(http.StatusNotFound, "this server has none")
	}
	to.ServeHTTP(c.w, c.r)
	return done{}, nil
}

// index lists the routes.
func (c *call) index() (any, error) {
	type line struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		About  string `json:"about"`
	}
	var lines []line
	for _, r := range routes {
		method := r.method
		if r.method == anyMethod {
			if c.s.o.MCP == nil {
				continue
			}
			method = http.MethodPost
		}
		lines = append(lines, line{method, r.path, r.about})
	}
	return map[string]any{"routes": lines, "openapi": "/openapi.json"}, nil
}
