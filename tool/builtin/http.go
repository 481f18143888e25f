package builtin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"

	"github.com/tipstaff/tipstaff/flow"
)

const maxRedirects = 10

var httpGetTool = definition{
	name:        "http_get",
	title:       "Fetch a URL",
	description: "Fetches text over HTTP from one of the declared hosts. Each redirect is checked. A status of 400 and above is an error.",
	input: `{"type":"object","additionalProperties":false,"required":["url"],"properties":{
		"url":{"type":"string","minLength":1},
		"headers":{"type":"object","additionalProperties":{"type":"string"},"description":"sent to the first host alone, not to one that it redirects to"},
		"max_bytes":{"type":"integer","minimum":1,"maximum":8388608,"default":1048576,"description":"a larger body is an error"}}}`,
	output: `{"type":"object","additionalProperties":false,"required":["url","status","content_type","text","size","sha256"],"properties":{
		"url":{"type":"string","description":"after redirects"},"status":{"type":"integer"},"content_type":{"type":"string"},
		"text":{"type":"string"},"size":{"type":"integer"},"sha256":{"type":"string"}}}`,
	hints: annotations{ReadOnly: true, OpenWorld: true},
}

type httpGetArgs struct {
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	MaxBytes int64             `json:"max_bytes"`
}

type fetched struct {
	URL         string `json:"url"`
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	Text        string `json:"text"`
	Size        int    `json:"size"`
	SHA256      string `json:"sha256"`
}

func (s *Server) httpGet(c call, in httpGetArgs) (answer, error) {
	if in.MaxBytes == 0 {
		in.MaxBytes = defaultMaxBytes
	}
	target, err := url.Parse(in.URL)
	if err != nil {
		return answer{}, fmt.Errorf("%q is not a URL", in.URL)
	}
	client := s.client()
	defer client.CloseIdleConnections()
	response, err := s.follow(c.ctx, client, target, in.Headers)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, in.MaxBytes+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("the body cannot be read: %w", err)
	case int64(len(data)) > in.MaxBytes:
		return answer{}, fmt.Errorf("the body has more than %d bytes, which is max_bytes", in.MaxBytes)
	case !isText(data):
		return answer{}, fmt.Errorf("the body is not UTF-8 text but %q", response.Header.Get("Content-Type"))
	}
	got := fetched{
		URL: response.Request.URL.Redacted(), Status: response.StatusCode, ContentType: response.Header.Get("Content-Type"),
		Text: string(data), Size: len(data), SHA256: flow.Digest(data),
	}
	if got.Status >= 400 {
		return answer{value: got, text: "the server answered " + response.Status, failed: true}, nil
	}
	return answer{value: got, text: got.Text}, nil
}

// follow makes the request and those that it is redirected to, each checked
// before anything is sent.
func (s *Server) follow(ctx context.Context, client *http.Client, target *url.URL, headers map[string]string) (*http.Response, error) {
	first := target
	for range maxRedirects + 1 {
		if err := s.mayFetch(target); err != nil {
			return nil, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
		if err != nil {
			return nil, fmt.Errorf("the request cannot be made: %w", err)
		}
		if target.Scheme == first.Scheme && target.Host == first.Host {
			for name, value := range headers {
				request.Header.Set(name, value)
			}
		}
		response, err := client.Do(request)
		if err != nil {
			if u := (*url.Error)(nil); errors.As(err, &u) { // the message has the URL already
				err = u.Err
			}
			return nil, fmt.Errorf("%s cannot be fetched: %w", target.Redacted(), err)
		}
		next, err := response.Location()
		if response.StatusCode < 300 || response.StatusCode >= 400 || errors.Is(err, http.ErrNoLocation) {
			return response, nil
		}
		response.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("%s redirects to something that is not a URL", target.Redacted())
		}
		target = next
	}
	return nil, fmt.Errorf("%s redirects more than %d times", first.Redacted(), maxRedirects)
}

// mayFetch checks scheme and host against what is declared.
func (s *Server) mayFetch(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%q is not an http or https URL", u.Redacted())
	case u.User != nil:
		return fmt.Errorf("%q carries credentials: use headers", u.Redacted())
	case u.Hostname() == "":
		return fmt.Errorf("%q has no host", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, h := range s.options.Hosts {
		name, only := splitHost(h)
		if strings.EqualFold(name, u.Hostname()) && (only == "" || only == port) {
			return nil
		}
	}
	return fmt.Errorf("the host %q is not among the hosts that the manifest lists", u.Host)
}

// splitHost takes a declared host apart; port is "" if it covers every port.
func splitHost(h string) (name, port string) {
	if _, err := netip.ParseAddr(strings.Trim(h, "[]")); err == nil {
		return strings.Trim(h, "[]"), ""
	}
	if name, port, err := net.SplitHostPort(h); err == nil {
		return name, port
	}
	return h, ""
}

// client dials only addresses that may be dialled: the check is made on the
// address itself, after the name was resolved, so that no name leads inside. It
// uses no proxy, which would resolve names by itself.
func (s *Server) client() *http.Client {
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return s.mayDial(address) }}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 1 << 20},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *Server) mayDial(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is not an address", address)
	}
	ip := ap.Addr().Unmap().WithZone("")
	if public(ip) {
		return nil
	}
	for _, h := range s.options.Hosts {
		name, port := splitHost(h)
		if port != "" && port != fmt.Sprint(ap.Port()) {
			continue
		}
		listed, err := netip.ParseAddr(name)
		if err == nil && listed.Unmap() == ip || strings.EqualFold(name, "localhost") && ip.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("%s is a private address, and the manifest does not list it", ip)
}

// special are the ranges that are not private by name, but do not lead to the
// public network either, or lead to an address hidden in theirs.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

func public(ip netip.Addr) bool {
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}
