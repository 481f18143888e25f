package tipstaff

import "net/netip"

// Loopback reports whether only this machine can reach a host, an IP address with or
// without a zone. A name may be anybody's, save localhost.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
