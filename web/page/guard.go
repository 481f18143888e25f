package page

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// policy lets a page load what comes from here, and nothing else; scripts cannot make markup
// of text but by the one policy of parts.js.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types tipstaff"

// headers are those of every answer.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=(), browsing-topics=()")
	h.Set("Cache-Control", "no-store")
}

// checkPart refuses parts and streams that a page elsewhere asks for: the cookie comes along
// from every port of this host.
func (v *view) checkPart() error {
	if site := v.r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return &problem{status: http.StatusForbidden, title: "This is a part of a page", text: "Open the page itself."}
	}
	return nil
}

// checkForm refuses forms that do not come from a page of this session. Cookies are sent by
// every port of a host, so the origin is looked at as well.
func (v *view) checkForm(signed bool) error {
	foreign := &problem{status: http.StatusForbidden, title: "This form comes from elsewhere", text: "Open the page here, and send it again."}
	if v.s.cross.Check(v.r) != nil || v.r.Header.Get("Origin") == "" && v.r.Header.Get("Sec-Fetch-Site") == "" {
		return foreign
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	read := v.r.ParseForm
	if strings.HasPrefix(v.r.Header.Get("Content-Type"), "multipart/form-data") {
		read = func() error { return v.r.ParseMultipartForm(maxForm) } // all of it is kept in memory
	}
	if err := read(); err != nil {
		return &problem{status: http.StatusBadRequest, title: "The form cannot be read", text: "It may be larger than 4 MiB, or not encoded as forms are."}
	}
	if !signed {
		return nil
	}
	if v.signed == nil {
		return v.unsigned()
	}
	if subtle.ConstantTimeCompare([]byte(v.r.PostFormValue("form")), []byte(v.signed.form())) != 1 {
		return foreign
	}
	return nil
}
