package page

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	surface = "http" // how records name the way a caller came
	client  = "web"  // and the program

	sessionTime = 24 * time.Hour     // renewed in its second half while it is used
	sessionMost = 7 * 24 * time.Hour // however much it is used
	codeTime    = 5 * time.Minute
	codesMost   = 1000
	missesMost  = 10 // wrong tokens and codes of one address in a minute

	nonceSize = 16
	macSize   = sha256.Size
)

// session is a person who has signed in. Nothing of it is stored: the cookie says who it is,
// authenticated by a key of the token. A token that is changed or removed ends it.
type session struct {
	tipstaff.Bearer
	issued, expires time.Time
	nonce           [nonceSize]byte
	shared          bool // pages are drawn for it that several sessions of the same rights are sent
}

// value is the cookie of the session.
func (s *session) value() string {
	message := s.message()
	return base64.RawURLEncoding.EncodeToString(append(message, s.MAC("page session", message)...))
}

func (s *session) message() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(s.issued.Unix()))
	b = binary.BigEndian.AppendUint64(b, uint64(s.expires.Unix()))
	b = append(b, s.nonce[:]...)
	return append(b, s.User...)
}

// form is what every form of the session carries, so that no other site can send one.
func (s *session) form() string {
	if s.shared {
		return formMark
	}
	return base64.RawURLEncoding.EncodeToString(s.MAC("page form", s.nonce[:]))
}

// newSession signs somebody in.
func newSession(b tipstaff.Bearer, issued, now time.Time) *session {
	s := &session{Bearer: b, issued: issued, expires: now.Add(sessionTime)}
	if most := issued.Add(sessionMost); s.expires.After(most) {
		s.expires = most
	}
	_, _ = rand.Read(s.nonce[:]) // it never fails
	s.Client = client
	return s
}

// parseSession is the session of a cookie; nil: of none that holds.
func parseSession(tokens *tipstaff.Tokens, cookie string, now time.Time) *session {
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(raw) < 16+nonceSize+macSize {
		return nil
	}
	message, mac := raw[:len(raw)-macSize], raw[len(raw)-macSize:]
	s := &session{
		issued:  time.Unix(int64(binary.BigEndian.Uint64(message)), 0),
		expires: time.Unix(int64(binary.BigEndian.Uint64(message[8:])), 0),
		nonce:   [nonceSize]byte(message[16:]),
	}
	for _, b := range tokens.BearersOf(surface, string(message[16+nonceSize:])) {
		if hmac.Equal(b.MAC("page session", message), mac) && now.Before(s.expires) {
			s.Bearer = b
			s.Client = client
			b.Used(now)
			return s
		}
	}
	return nil
}

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

// cookieName is of this daemon alone: browsers do not tell ports apart.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "0"
	}
	return "tipstaff_" + port
}

// session is that of a request; nil: nobody has signed in.
func (s *Site) session(r *http.Request) *session {
	if drawn, ok := r.Context().Value(drawnFor{}).(*session); ok {
		return drawn
	}
	given := r.CookiesNamed(cookieName(r))
	if len(given) != 1 {
		return nil
	}
	found := parseSession(s.o.Tokens, given[0].Value, s.now())
	if found == nil || s.signins.left(found) {
		return nil
	}
	return found
}

// keep gives a session to the browser; nil takes it away.
func (s *Site) keep(w http.ResponseWriter, r *http.Request, signed *session) {
	c := &http.Cookie{Name: cookieName(r), Path: "/ui", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil, MaxAge: -1}
	if signed != nil {
		c.Value, c.MaxAge = signed.value(), int(signed.expires.Sub(s.now()).Seconds())
	}
	http.SetCookie(w, c)
}

// renew gives a session that is used in the second half of its time a longer one.
func (s *Site) renew(w http.ResponseWriter, r *http.Request, signed *session) {
	now := s.now()
	if signed.shared || signed.expires.Sub(now) > sessionTime/2 || signed.expires.Sub(signed.issued) >= sessionMost {
		return
	}
	next := newSession(signed.Bearer, signed.issued, now)
	next.nonce = signed.nonce // forms that are open stay good
	s.keep(w, r, next)
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
		b, known := v.s.signins.look(page.Code, false, v.now)
		if page.User = b.User; !known {
			v.s.signins.missed(v.r, v.now)
			page.Code, page.Error = "", "This link has been used, or has expired. tipstaff serve --link makes another; a token does as well."
		}
	}
	return v.show("signin", "Sign in", page)
}

type signinPage struct {
	Next, Code, User, Error string
}

// enter signs somebody in, by a code or a token.
func (v *view) enter() error {
	if v.s.signins.barred(v.r, v.now) {
		return tooMany()
	}
	b, known := tipstaff.Bearer{}, false
	code := v.r.PostFormValue("code")
	if code != "" {
		b, known = v.s.signins.look(code, true, v.now)
	} else {
		b, known = v.s.o.Tokens.Bearer(surface, strings.TrimSpace(v.r.PostFormValue("token")))
	}
	next := local(v.r.PostFormValue("next"))
	if !known {
		v.s.signins.missed(v.r, v.now)
		page := signinPage{Next: next, Error: "This token is not known here. .tipstaff/serve.token holds that of this machine; tipstaff serve --link makes a link instead."}
		if code != "" {
			page.Error = "This link has been used, or has expired. tipstaff serve --link makes another; a token does as well."
		}
		v.status = http.StatusForbidden
		return v.show("signin", "Sign in", page)
	}
	v.s.keep(v.w, v.r, newSession(b, v.now, v.now))
	return v.redirect(next)
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
