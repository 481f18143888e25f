package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
)

// call is one request on its way to its answer.
type call struct {
	s     *Server
	w     *countingWriter
	r     *http.Request
	began time.Time
	route *route // nil: it is not known yet

	bearer tipstaff.Bearer // who asks; of pages they know themselves
	run    tipstaff.ID     // that the path names
	name   string          // of the gate, artifact or record that the path names
	query  url.Values
}

func (c *call) pattern() string {
	if c.route == nil {
		return ""
	}
	return c.route.path
}

// split takes a path apart. What an escape stands for is part of a name, never of the path.
func split(path string) ([]string, error) {
	var segments []string
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		name, err := url.PathUnescape(part)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "the path cannot be read")
		}
		segments = append(segments, name)
	}
	return segments, nil
}

// find is the route of a path and a method. The id of a run is looked at before anything
// else is.
func (c *call) find(segments []string) (*route, error) {
	if len(segments) > 1 && segments[0] == "runs" {
		run, err := tipstaff.ParseID(segments[1])
		if err != nil {
			return nil, err
		}
		c.run = run
	}
	var allowed []string
	for i := range routes {
		route := &routes[i]
		name, fits := route.match(segments)
		if !fits {
			continue
		}
		c.name = name
		if route.method == c.r.Method || route.method == http.MethodGet && c.r.Method == http.MethodHead || route.method == anyMethod {
			return route, nil
		}
		allowed = append(allowed, route.method)
	}
	if allowed != nil {
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, refuse(http.StatusMethodNotAllowed, "%s cannot be done here: %s can", tipstaff.Quote(c.r.Method, 20), strings.Join(allowed, " or "))
	}
	return nil, &refusal{http.StatusNotFound, tipstaff.Errorf(tipstaff.InvalidArgument, "there is nothing at this path").WithHint("GET / lists the routes")}
}

// readQuery refuses parameters that the route does not have, and those given twice.
func (c *call) readQuery() (err error) {
	if c.route.method == anyMethod {
		return nil
	}
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return refuse(http.StatusBadRequest, "the parameters cannot be read")
	}
	for name, given := range c.query {
		at := slices.IndexFunc(c.route.query, func(p param) bool { return p.name == name })
		switch {
		case at < 0:
			return refuse(http.StatusBadRequest, "there is no parameter %s here", tipstaff.Quote(name, 100))
		case len(given) > 1 && !c.route.query[at].list:
			return refuse(http.StatusBadRequest, "%s is given twice", name)
		}
	}
	return nil
}

// number is a parameter that is a whole number; 0 where it is not given.
func (c *call) number(name string) (int64, error) {
	if !c.query.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseInt(c.query.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0, refuse(http.StatusBadRequest, "%s is %s: it is a whole number", name, tipstaff.Quote(c.query.Get(name), 100))
	}
	return n, nil
}

// limit is how much is asked for. Zero is as wrong as what is too much: it is not clamped.
func (c *call) limit() (int, error) {
	n, err := c.number("limit")
	if err == nil && c.query.Has("limit") && (n < 1 || n > 1000) {
		err = refuse(http.StatusBadRequest, "limit is %d: that is out of range", n)
	}
	return int(n), err
}

// id is a parameter that names a run or a gate; zero where it is not given.
func (c *call) id(name string) (tipstaff.ID, error) {
	if !c.query.Has(name) {
		return tipstaff.ID{}, nil
	}
	return tipstaff.ParseID(c.query.Get(name))
}

// list is a parameter that may be given several times, or as a list with commas.
func (c *call) list(name string) (all []string) {
	for _, given := range c.query[name] {
		all = append(all, strings.Split(given, ",")...)
	}
	return all
}

// key is that of a request that may be sent again.
func (c *call) key() (string, error) {
	given := c.r.Header.Values("Idempotency-Key")
	switch {
	case len(given) == 0:
		return "", nil
	case len(given) > 1 || given[0] == "" || len(given[0]) > 200 || strings.ContainsFunc(given[0], func(r rune) bool { return r < '!' || r > '~' }):
		return "", refuse(http.StatusBadRequest, "Idempotency-Key has 1 to 200 printable characters, and stands once")
	}
	return given[0], nil
}

// maxDepth is how deep lists and objects of a request may stand in each other.
const maxDepth = 100

// read reads the body of a request, which has no members but those that are known. An empty
// one is an object without members, where all may be missing.
func (c *call) read(v any, optional bool) error {
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" {
		return refuse(http.StatusUnsupportedMediaType, "the body is encoded as %s: send it as it is", tipstaff.Quote(encoding, 100))
	}
	if c.r.ContentLength == 0 && optional {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type")); err != nil || kind != jsonType {
		return refuse(http.StatusUnsupportedMediaType, "the body must be JSON: Content-Type: application/json")
	}
	text, err := c.body()
	if err != nil {
		return err
	}
	if len(text) == 0 && optional {
		return nil
	}
	if _, err := canon.Decode(text, maxDepth); err != nil {
		return refuse(http.StatusBadRequest, "the body cannot be read: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return unfit(d.Decode(v))
}

// body reads the body of a request, of which there is so much at most, in so much time.
func (c *call) body() ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body cannot be read")
	}
	return text, c.controller().SetReadDeadline(time.Time{}) // else it would end the request
}

// unfit says which member of a request cannot be read, in the words of who sent it.
func unfit(err error) error {
	var (
		wrong *json.UnmarshalTypeError
		coded *tipstaff.Error
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return coded
	case errors.As(err, &wrong) && wrong.Field != "":
		return refuse(http.StatusBadRequest, "%s cannot be a %s", wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		return refuse(http.StatusBadRequest, "the body is a %s: it must be an object", wrong.Value)
	}
	return refuse(http.StatusBadRequest, "the body cannot be read: %s", strings.TrimPrefix(fmt.Sprint(err), "json: "))
}
