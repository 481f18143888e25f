package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// surface is how records name the way a caller came.
const surface = "http"

// ServeHTTP looks at who asks before it looks at what for. Nobody's fault ends the server.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, w: &countingWriter{ResponseWriter: w}, r: r, began: time.Now()}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	defer func() {
		p := recover()
		defer c.log()
		switch p {
		case nil:
		case http.ErrAbortHandler:
			panic(p)
		default:
			c.fail(fmt.Errorf("%s %s panicked: %v\n%s", r.Method, c.pattern(), p, debug.Stack()))
		}
	}()
	if r.ContentLength != 0 { // also of what nobody reads, which the server does away with
		_ = c.controller().SetReadDeadline(time.Now().Add(bodyTime))
	}
	if err := s.answer(c); err != nil {
		c.fail(err)
	}
}

// answer lets a request in and has its route answer it.
func (s *Server) answer(c *call) error {
	if err := s.checkHost(c.r); err != nil {
		return err
	}
	if err := s.checkOrigin(c.r); err != nil {
		return err
	}
	if s.o.Page != nil && c.forPage() {
		return s.show(c)
	}
	segments, err := split(c.r.URL.EscapedPath())
	public := err == nil && len(segments) == 1 && slices.Contains([]string{"healthz", "readyz", "version"}, segments[0])
	if !public {
		if err := c.authenticate(); err != nil {
			return err
		}
	}
	if err == nil && s.o.Only != "" && !public && segments[0] != s.o.Only {
		err = refuse(http.StatusNotFound, "this server answers /%s alone", s.o.Only)
	}
	if err != nil {
		return err
	}
	if c.route, err = c.find(segments); err != nil {
		return err
	}
	if c.r.Method == http.MethodPost && s.serving.Err() != nil {
		return errStopping
	}
	if err := c.readQuery(); err != nil {
		return err
	}
	if s.o.Trace != nil {
		c.r = c.r.WithContext(s.o.Trace(c.r.Context(), c.r.Header.Get))
	}
	answer, err := c.route.do(c)
	if err != nil {
		return err
	}
	return c.write(answer)
}

// show has the page answer. Pages that follow a run are sent away when the server stops.
func (s *Server) show(c *call) error {
	switch {
	case c.r.URL.Path == "/":
		http.Redirect(c.w, c.r, "/ui/", http.StatusSeeOther)
		return nil
	case c.r.Method == http.MethodPost && s.serving.Err() != nil:
		return errStopping
	case c.r.Method == http.MethodPost: // what has begun is not broken off
		s.o.Page.ServeHTTP(c.w, c.r)
		return nil
	}
	ctx, stop := s.untilStopped(c.r.Context())
	defer stop()
	s.o.Page.ServeHTTP(c.w, c.r.WithContext(ctx))
	return nil
}

// forPage reports whether a request is a person's. At / programs are told the routes, and
// people, who bring no token, are sent to the page.
func (c *call) forPage() bool {
	path := c.r.URL.Path
	return path == "/ui" || strings.HasPrefix(path, "/ui/") || path == "/" && c.r.Header.Get("Authorization") == ""
}

// checkHost refuses requests for another name than ours: a page elsewhere whose name was made
// to lead here could read the answers otherwise.
func (s *Server) checkHost(r *http.Request) error {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = strings.Trim(r.Host, "[]"), ""
	}
	for _, own := range s.o.Hosts {
		if strings.EqualFold(own, r.Host) || strings.EqualFold(own, host) {
			return nil
		}
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local != nil && local.Network() == "unix" {
		return nil // no name leads to a socket
	}
	if local, ok := local.(*net.TCPAddr); ok && port == fmt.Sprint(local.Port) {
		ip, err := netip.ParseAddr(host)
		if own := local.AddrPort().Addr().Unmap(); err == nil && ip.Unmap().WithZone("") == own.WithZone("") || host == "localhost" && own.IsLoopback() {
			return nil
		}
	}
	return tipstaff.Errorf(tipstaff.Forbidden, "this server is not called %s", tipstaff.Quote(r.Host, 100)).WithHint("ask it by its address; serve.hosts in the manifest gives it more names")
}

// checkOrigin refuses pages of others. What is not a page says nothing of where it is from.
func (s *Server) checkOrigin(r *http.Request) error {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, scheme+r.Host) {
			return tipstaff.Errorf(tipstaff.Forbidden, "requests of pages from %s are not answered", tipstaff.Quote(origin, 100))
		}
	}
	return nil
}

// authenticate finds the caller by the bearer token, and by nothing else.
func (c *call) authenticate() error {
	given := c.r.Header.Values("Authorization")
	if len(given) != 1 {
		return tipstaff.Errorf(tipstaff.Unauthenticated, "the request needs one bearer token: Authorization: Bearer …")
	}
	scheme, secret, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return tipstaff.Errorf(tipstaff.Unauthenticated, "the request needs a bearer token, and has another kind of credential: Authorization: Bearer …")
	}
	bearer, err := c.s.o.Tokens.Bearer(surface, strings.TrimSpace(secret))
	if err != nil {
		return err
	}
	bearer.Client = fmt.Sprintf("%.200s", strings.ToValidUTF8(c.r.UserAgent(), "\uFFFD"))
	c.bearer, c.r = bearer, c.r.WithContext(tipstaff.WithCaller(c.r.Context(), bearer.Caller))
	return nil
}

// log tells who asked for what and how it ended, and nothing of what was said.
func (c *call) log() {
	level := c.level()
	if !c.s.o.Log.Enabled(c.r.Context(), level) {
		return
	}
	c.s.o.Log.Log(c.r.Context(), level, "request", "method", c.r.Method, "route", c.pattern(),
		"principal", tipstaff.CallerFrom(c.r.Context()).Principal, "status", c.w.status, "ms", time.Since(c.began).Milliseconds())
}

// untilStopped is a context that also ends when the server starts nothing more.
func (s *Server) untilStopped(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.serving, func() { cancel(errStopping) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// acceptsEvents reports whether a client asks for events rather than for a page of them.
func acceptsEvents(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, "text/event-stream") })
}
