package tipstaff

import (
	"net/netip"
	"strings"
)

// Loopback reports whether only this machine can reach a host, an IP address with or
// without a zone. A name may be anybody's, save localhost.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// SocketPath is the file of the Unix socket that an address names: unix:PATH, or
// unix:///PATH as URLs have it. "": the address is one of the network.
func SocketPath(addr string) string {
	path, _ := strings.CutPrefix(addr, "unix:")
	if path == addr {
		return ""
	}
	if rooted, ok := strings.CutPrefix(path, "//"); ok {
		return rooted
	}
	return path
}
