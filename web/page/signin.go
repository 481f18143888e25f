package page

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	codeTime   = 5 * time.Minute
	codesMost  = 1000
	missesMost = 10 // wrong tokens and codes of one address in a minute
)

// signins is what is remembered of signing in and out. It is lost with the process: then codes
// are void, and a copied cookie whose owner has signed out lives until it expires.
type signins struct {
	mu     sync.Mutex
	codes  map[[sha256.Size]byte]code
	out    map[[nonceSize]byte]time.Time // sessions that were signed out, until none of them can hold
	misses map[string][]time.Time        // wrong tokens and codes, by address
}

// code lets its bearer in, once. Only its hash is kept.
type code struct {
	bearer  tipstaff.Bearer
	expires time.Time
}

func newSignins() *signins {
	return &signins{codes: map[[sha256.Size]byte]code{}, out: map[[nonceSize]byte]time.Time{}, misses: map[string][]time.Time{}}
}

// issue makes a code.
func (d *signins) issue(b tipstaff.Bearer, now time.Time) (text string, expires time.Time) {
	text = rand.Text()
	d.mu.Lock()
	defer d.mu.Unlock()
	for sum, c := range d.codes {
		if now.After(c.expires) || len(d.codes) >= codesMost {
			delete(d.codes, sum)
		}
	}
	expires = now.Add(codeTime)
	d.codes[sha256.Sum256([]byte(text))] = code{b, expires}
	return text, expires
}

// look is whom a code lets in; use: it does so now, and never again.
func (d *signins) look(text string, use bool, now time.Time) (tipstaff.Bearer, bool) {
	sum := sha256.Sum256([]byte(text))
	d.mu.Lock()
	defer d.mu.Unlock()
	c, known := d.codes[sum]
	if use || known && now.After(c.expires) {
		delete(d.codes, sum)
	}
	return c.bearer, known && !now.After(c.expires)
}

// leave refuses a session from now on.
func (d *signins) leave(s *session, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for nonce, until := range d.out {
		if now.After(until) {
			delete(d.out, nonce)
		}
	}
	d.out[s.nonce] = s.issued.Add(sessionMost) // copies of it may have been renewed
}

func (d *signins) left(s *session) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, left := d.out[s.nonce]
	return left
}

// missed counts a wrong token or code; barred reports whether there were too many.
func (d *signins) missed(r *http.Request, now time.Time) {
	at := remoteHost(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.misses) > 10_000 {
		d.misses = map[string][]time.Time{} // a flood of addresses
	}
	d.misses[at] = append(recent(d.misses[at], now, time.Minute), now)
}

func (d *signins) barred(r *http.Request, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(recent(d.misses[remoteHost(r)], now, time.Minute)) >= missesMost
}

// recent are the times that lie no further back than that.
func recent(all []time.Time, now time.Time, back time.Duration) []time.Time {
	for len(all) > 0 && now.Sub(all[0]) > back {
		all = all[1:]
	}
	return all
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Code makes a link that signs its bearer in, once.
func (s *Site) Code(b tipstaff.Bearer) (path string, expires time.Time) {
	text, expires := s.signins.issue(b, s.now())
	return "/ui/signin?code=" + text, expires
}

// signin shows who a link lets in, or asks for a token. It uses nothing up: previews of links
// come here as well.
func (v *view) signin() error {
	page := signinPage{Next: local(v.r.FormValue("next")), Code: v.r.FormValue("code")}
	if page.Code != "" {
		if v.s.signins.barred(v.r, v.now) {
			return tooMany()
		}
		b, known := v.code(page.Code, false)
		if page.User = b.User; !known {
			v.s.signins.missed(v.r, v.now)
			page.Code, page.Error = "", linkUsed
		}
	}
	return v.show("signin", "Sign in", page)
}

// code is whom a code lets in whose token still holds; use: it does so now, and never again.
func (v *view) code(text string, use bool) (tipstaff.Bearer, bool) {
	b, known := v.s.signins.look(text, use, v.now)
	return b, known && slices.ContainsFunc(v.s.o.Tokens.BearersOf(surface, b.User), b.SameToken)
}

// linkUsed is why a link lets nobody in.
const linkUsed = "This link has been used, or has expired. tipstaff serve --link makes another; a token does as well."

type signinPage struct {
	Next, Code, User, Error string
	Link                    string // to the page under its own name, for who has shown a token; "": nobody has
}

// enter signs somebody in, by a code or a token.
func (v *view) enter() error {
	if v.s.signins.barred(v.r, v.now) {
		return tooMany()
	}
	b, why := tipstaff.Bearer{}, ""
	if code := v.r.PostFormValue("code"); code != "" {
		known := false
		if b, known = v.code(code, true); !known {
			why = linkUsed
		}
	} else {
		var err error
		if b, err = v.s.o.Tokens.Bearer(surface, strings.TrimSpace(v.r.PostFormValue("token"))); err != nil {
			why = signinRefused(err)
		}
	}
	next := local(v.r.PostFormValue("next"))
	if why != "" {
		v.s.signins.missed(v.r, v.now)
		page := signinPage{Next: next, Error: why}
		v.status = http.StatusForbidden
		return v.show("signin", "Sign in", page)
	}
	if at := v.s.elsewhere(v.r); at != "" { // by a link: a redirect of a form to another host is refused by browsers
		path, _ := v.s.Code(b)
		return v.show("signin", "Sign in", signinPage{User: b.User, Link: "http://" + at + path + "&" + query("next", next)})
	}
	v.s.keep(v.w, v.r, newSession(b, v.now, v.now))
	return v.redirect(next)
}

// signinRefused is why a token lets nobody in, and what does.
func signinRefused(err error) string {
	text := err.Error()
	var known *tipstaff.Error
	if errors.As(err, &known) {
		text = known.Message
	}
	return strings.ToUpper(text[:1]) + text[1:] + ". In the daemon's workspace, tipstaff serve --token prints its token, and tipstaff serve --link a link instead."
}

// signout ends the session.
func (v *view) signout() error {
	v.s.signins.leave(v.signed, v.now)
	v.s.keep(v.w, v.r, nil)
	return v.redirect("/ui/signin")
}

// local is where to go after signing in: a place of this page, never elsewhere.
func local(next string) string {
	if (next == "/ui" || strings.HasPrefix(next, "/ui/")) && !strings.ContainsAny(next, "\\\r\n") && !strings.HasPrefix(next, "/ui/sign") && !strings.Contains(next, "//") {
		return next
	}
	return "/ui/"
}

func tooMany() error {
	return &problem{status: http.StatusTooManyRequests, title: "Too many wrong tokens", text: "Wait a minute, and try again."}
}
