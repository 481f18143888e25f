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
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	surface = "http" // how records name the way a caller came
	client  = "web"  // and the program

	sessionTime = 24 * time.Hour     // renewed in its second half while it is used
	sessionMost = 7 * 24 * time.Hour // however much it is used

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
	if len(given) != 1 || s.elsewhere(r) != "" {
		return nil
	}
	found := parseSession(s.o.Tokens, given[0].Value, s.now())
	if found == nil || s.signins.left(found) {
		return nil
	}
	return found
}

// At is where the page is for somebody who asks for it by a host, with its port: under its own
// name if others on this machine are called by that host, too.
func (s *Site) At(host string) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if ip := net.ParseIP(name); s.o.Host == "" || !strings.EqualFold(name, "localhost") && (ip == nil || !ip.IsLoopback()) {
		return host
	}
	if port == "" {
		return s.o.Host
	}
	return net.JoinHostPort(s.o.Host, port)
}

// elsewhere is the host under which a request would have a session; "": it is this one.
func (s *Site) elsewhere(r *http.Request) string {
	if at := s.At(r.Host); r.TLS == nil && at != r.Host {
		return at
	}
	return ""
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
