package page

import (
	"bytes"
	"net/http"
)

// reply is a page on its way. Nothing is sent before it is flushed, so that a page which
// fails before that is answered by its error alone.
type reply struct {
	bytes.Buffer
	v    *view
	sent bool
}

// flush sends what was written since.
func (o *reply) flush() {
	if o == nil {
		return
	}
	if !o.sent {
		o.v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		o.v.w.WriteHeader(o.v.status)
		o.sent = true
	}
	_, _ = o.WriteTo(o.v.w)
	_ = http.NewResponseController(o.v.w).Flush() // a writer that cannot sends it at the end
}

// broken is what becomes of an error: a page that has begun can only end early.
func (o *reply) broken(err error) error {
	if !o.sent {
		return err
	}
	o.v.s.o.Log.ErrorContext(o.v.ctx(), "a page broke off", "path", o.v.r.Pattern, "error", err.Error())
	return nil
}
