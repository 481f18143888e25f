package page

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

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

func (v *view) settings() error {
	return v.show("settings", "Settings", settingsPage{Choices: choices, Version: v.s.o.Version, Saved: v.r.FormValue("saved") != ""})
}

type settingsPage struct {
	Choices any
	Version string
	Saved   bool
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
