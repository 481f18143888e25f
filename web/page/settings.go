package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// look is how a person wants pages to look. It is kept in a cookie that the server reads, so
// that no page appears in one theme and turns to another.
type look struct {
	Theme   string // system, light, dark
	Times   string // relative, local, utc
	Density string // normal, dense
	Keys    string // on, off
	Notify  string // off, on
}

// choices are what there is to choose from, the default first.
var choices = []struct {
	Name, Title string
	Of          []string
}{
	{"theme", "Theme", []string{"system", "light", "dark"}},
	{"times", "Times", []string{"relative", "local", "utc"}},
	{"density", "Density", []string{"normal", "dense"}},
	{"keys", "Single-key shortcuts", []string{"on", "off"}},
	{"notify", "Tell me when something waits", []string{"off", "on"}},
}

func lookOf(r *http.Request) look {
	given := url.Values{}
	if c, err := r.Cookie("tipstaff_look"); err == nil {
		given, _ = url.ParseQuery(c.Value)
	}
	chosen := map[string]string{}
	for _, c := range choices {
		chosen[c.Name] = c.Of[0]
		if v := given.Get(c.Name); slices.Contains(c.Of, v) {
			chosen[c.Name] = v
		}
	}
	return look{chosen["theme"], chosen["times"], chosen["density"], chosen["keys"], chosen["notify"]}
}

// Chosen reports whether a choice is the one that holds.
func (l look) Chosen(name, value string) bool {
	return map[string]string{"theme": l.Theme, "times": l.Times, "density": l.Density, "keys": l.Keys, "notify": l.Notify}[name] == value
}

// Daemon is what the process that serves a page tells of itself.
type Daemon struct {
	Started         time.Time
	Store           string // where its runs are kept
	Size            int64  // of the database, in bytes
	Keys            tipstaff.RunKeys
	Trusted         []string // ids of the keys that verifications believe
	Driving, Queued int      // runs
	Places          int      // runs that are driven at once; 0: as many as there are
}

// settingsPage is what somebody has chosen, who that is, and what serves the page.
type settingsPage struct {
	Choices any
	Saved   bool
	Ends    time.Time // of the session
	Version string
	Daemon
	Streams, StreamsMost int
	FormMost             int64
	Tokens               []tipstaff.TokenUse // nil: not for this person
}

// Up is how long the process has served.
func (p settingsPage) Up(now time.Time) time.Duration { return now.Sub(p.Started) }

func (v *view) settings() error {
	daemon, err := v.s.o.Daemon(v.ctx())
	if err != nil {
		return err
	}
	page := settingsPage{Choices: choices, Saved: v.r.FormValue("saved") != "", Ends: v.signed.expires, Version: v.s.o.Version, Daemon: daemon, Streams: v.s.streams.count(), StreamsMost: streamsInAll, FormMost: maxForm}
	if v.signed.May(tipstaff.ScopeAdmin) {
		page.Tokens = v.s.o.Tokens.Uses()
	}
	return v.show("settings", "Settings", page)
}

// waiting tells a script what waits for this person: no more than a notification may show.
func (v *view) waiting() error {
	inbox, err := v.s.control.Runs.Inbox(v.ctx(), tipstaff.InboxRequest{Limit: 50})
	if err != nil {
		return err
	}
	type gate struct {
		Kind  string `json:"kind"`
		Title string `json:"title"`
		At    string `json:"at"` // its address
	}
	all := map[string]gate{}
	for _, g := range inbox.Gates {
		id := g.Gate.ID.String()
		all[id] = gate{words(string(g.Gate.Kind)), printed(g.Title, 120), "/ui/runs/" + g.Run.String() + "/gates/" + id}
	}
	v.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.w).Encode(all)
}

// set keeps the choices.
func (v *view) set() error {
	chosen := url.Values{}
	for _, c := range choices {
		if value := v.r.PostFormValue(c.Name); slices.Contains(c.Of, value) {
			chosen.Set(c.Name, value)
		}
	}
	http.SetCookie(v.w, &http.Cookie{Name: "tipstaff_look", Value: chosen.Encode(), Path: "/ui", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode, Secure: v.r.TLS != nil, HttpOnly: true})
	return v.redirect("/ui/settings?saved=1")
}

// whoami tells a script whether the session holds, and what it would be told by a stream.
func (v *view) whoami() error {
	inbox, err := v.s.control.Runs.Inbox(v.ctx(), tipstaff.InboxRequest{Limit: 1})
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.w).Encode(pulse{clock{v.now}.ISO(), v.signed.User, assets(), inbox.Total, v.signed.form()})
}
