package provider

import (
	"net"
	"net/url"
	"strings"
)

// address is where a vendor's API is reached.
type address struct {
	url  string
	host string
	own  bool // the vendor's, not one that speaks its format
}

// parseAddress accepts https, and plain http where no key can be read on the way:
// to this host, or where somebody has allowed it.
func parseAddress(given, own string, allowHTTP bool) (address, error) {
	if given == "" {
		given = own
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" {
		return address{}, invalid("base_url is not an address").WithHint("write it like %s", own)
	}
	switch {
	case u.User != nil:
		return address{}, invalid("base_url holds a user name or password").WithHint("credentials belong in api_key, as $env:NAME")
	case u.RawQuery != "" || u.Fragment != "":
		return address{}, invalid("base_url %s has a query or fragment", u.Redacted())
	case u.Scheme == "http" && !allowHTTP && !loopback(u.Hostname()):
		return address{}, invalid("base_url %s is plain http: the key could be read on the way", given).
			WithHint("use https, or set allow_http: true if the way to that host is safe")
	case u.Scheme != "https" && u.Scheme != "http":
		return address{}, invalid("base_url %s is neither https nor http", given)
	}
	return address{url: strings.TrimSuffix(u.String(), "/") + "/", host: u.Host, own: sameVendor(u.Hostname(), own)}, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// sameVendor holds for the vendor's host and the regional ones below it.
func sameVendor(host, own string) bool {
	u, err := url.Parse(own)
	return err == nil && (host == u.Hostname() || strings.HasSuffix(host, "."+u.Hostname()))
}
