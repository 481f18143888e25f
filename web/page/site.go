package page

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/tipstaff/tipstaff"
)

// maxForm is how large a form may be.
const maxForm = 4 << 20

// Options are what a page works with besides the control plane. Tokens, Tools and Memory are
// required.
type Options struct {
	Tokens   *tipstaff.Tokens
	Sessions tipstaff.Sessions // required
	Version  string
	// Host is a name of this machine that no other server here is called by, and that only those
	// are told who have signed in. Browsers send a cookie to every port of a host: one that is
	// given to 127.0.0.1 reaches whoever serves there. So sessions are under this name alone,
	// unless the connection is encrypted or comes by another name. "": there is none, and every
	// name will do.
	Host string
	// Status is the HTTP status of a code. nil: it is 500.
	Status func(tipstaff.Code) int
	// Export writes a run to a new folder that verifies on its own. nil: exports are not offered.
	Export func(ctx context.Context, runs tipstaff.Service, run tipstaff.ID, dir string) error
	// Daemon is what this process tells of itself. nil: nothing.
	Daemon func(context.Context) (Daemon, error)
	// Tools and Memory are those of the workspace. The page changes neither.
	Tools  tipstaff.Tools
	Memory tipstaff.Memory
	// Log is told of what failed. nil: nobody is.
	Log *slog.Logger
}

// Site answers what is asked for under /ui.
type Site struct {
	control     tipstaff.Control
	o           Options
	mux         *http.ServeMux
	signins     *signins
	streams     streams
	feeds       feeds
	folds       *folds
	layouts     layouts
	acts        acts
	decided     pace
	transcripts transcripts
	cross       *http.CrossOriginProtection
	now         func() time.Time
	proving     busy // sessions that have a run verified or exported
}

// New makes the page of a control plane.
func New(control tipstaff.Control, o Options) *Site {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Status == nil {
		o.Status = func(tipstaff.Code) int { return http.StatusInternalServerError }
	}
	if o.Daemon == nil {
		o.Daemon = func(context.Context) (Daemon, error) { return Daemon{}, nil }
	}
	s := &Site{control: control, o: o, mux: http.NewServeMux(), signins: newSignins(), folds: newFolds(control.Runs), cross: http.NewCrossOriginProtection(), now: control.Now}
	if s.now == nil {
		s.now = time.Now
	}
	s.mux.HandleFunc("GET /ui/assets/{digest}/{file}", s.asset)
	for pattern, do := range open {
		s.handle(pattern, do, false)
	}
	for _, pages := range []pages{framePages, runPages, gatePages, recordPages, kinPages, chatPages, actPages(), newPages, toolPages, memoryPages} {
		for pattern, do := range pages {
			s.handle(pattern, do, true)
		}
	}
	return s
}

// pages are what answers, by the pattern of the request.
type pages map[string]func(*view) error

var (
	// open is for everybody, all else for those who have signed in.
	open = pages{
		"GET /ui/signin":  (*view).signin,
		"POST /ui/signin": (*view).enter,
	}
	framePages = pages{
		"POST /ui/signout":  (*view).signout,
		"GET /ui/{$}":       (*view).inbox,
		"GET /ui/runs":      (*view).runs,
		"GET /ui/settings":  (*view).settings,
		"POST /ui/settings": (*view).set,
		"GET /ui/whoami":    (*view).whoami,
		"GET /ui/waiting":   (*view).waiting,
		"GET /ui/stream":    (*view).stream,
		"GET /ui/":          (*view).missing,
	}
)

// ServeHTTP answers one request.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	headers(w.Header())
	s.mux.ServeHTTP(w, r)
}

// handle has a page answered: after it is known who asks, and that a form comes from here.
func (s *Site) handle(pattern string, do func(*view) error, signed bool) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v := &view{s: s, w: w, r: r, now: s.now(), status: http.StatusOK, signed: s.session(r)}
		if v.signed != nil {
			v.r = r.WithContext(tipstaff.WithCaller(r.Context(), v.signed.Caller))
		}
		err := v.answer(do, signed)
		if at := elsewhere(""); errors.As(err, &at) {
			err = v.redirect(string(at))
		}
		if err != nil {
			v.fail(err)
		}
	})
}

// view is one request for a page, and what the page says.
type view struct {
	s      *Site
	w      http.ResponseWriter
	r      *http.Request
	now    time.Time
	signed *session     // nil: nobody has signed in
	run    tipstaff.Run // that the address names; zero: it names none
	status int
	out    *reply // what is written; nil: nothing is yet
}

func (v *view) ctx() context.Context { return v.r.Context() }

func (v *view) answer(do func(*view) error, signed bool) error {
	if v.r.Method == http.MethodPost {
		if err := v.checkForm(signed); err != nil {
			return err
		}
	}
	if signed && v.signed == nil {
		return v.unsigned()
	}
	if v.r.Method == http.MethodGet && v.r.URL.Query().Has("part") {
		if err := v.checkPart(); err != nil {
			return err
		}
	}
	if v.signed != nil {
		v.s.renew(v.w, v.r, v.signed)
	}
	if v.r.PathValue("run") != "" {
		var err error
		if v.run, err = v.find(); err != nil {
			return err
		}
	}
	return do(v)
}

// unsigned sends people to sign in. What scripts ask for is refused: they would take the form
// for an answer.
func (v *view) unsigned() error {
	if v.r.Method != http.MethodGet || v.r.URL.Path == streamPath || v.r.Header.Get("Sec-Fetch-Mode") != "" && v.r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return &problem{status: http.StatusUnauthorized, title: "You are not signed in", text: "Sign in, and come back."}
	}
	return v.redirect("/ui/signin?" + query("next", v.r.URL.RequestURI()))
}

func (v *view) redirect(to string) error {
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// elsewhere is an error of an address that means another one.
type elsewhere string

func (to elsewhere) Error() string { return "it is at " + string(to) }

// missing answers what no page has.
func (v *view) missing() error {
	return &problem{status: http.StatusNotFound, title: "There is no such page", text: "The address may be mistyped, or of another version."}
}

// problem is an error of the page itself.
type problem struct {
	status      int
	title, text string
}

func (p *problem) Error() string { return p.title + ": " + p.text }

// fail shows an error in the frame: what happened, where, and what to do.
func (v *view) fail(err error) {
	page := errorPage{Title: "Something went wrong", Text: "It is written in the log of the daemon."}
	v.status = http.StatusInternalServerError
	var own *problem
	var known *tipstaff.Error
	switch {
	case errors.As(err, &own):
		v.status, page.Title, page.Text = own.status, own.title, own.text
	case errors.As(err, &known):
		v.status = v.s.o.Status(known.Code)
		page = errorPage{Title: titleOf(v.status), Text: known.Message, Hint: known.Hint, Code: string(known.Code), Problems: known.Problems}
	}
	if v.status == http.StatusInternalServerError {
		v.s.o.Log.ErrorContext(v.ctx(), "a page failed", "method", v.r.Method, "path", v.r.Pattern, "error", err.Error())
	}
	if err := v.show("error", page.Title, page); err != nil {
		v.s.o.Log.ErrorContext(v.ctx(), "an error cannot be shown", "error", err.Error())
		http.Error(v.w, page.Title, v.status)
	}
}

type errorPage struct {
	Title, Text, Hint, Code string
	Problems                []tipstaff.Problem
}

func titleOf(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "Not allowed"
	case http.StatusConflict:
		return "That is not possible now"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "That was not understood"
	}
	return "Something went wrong"
}
