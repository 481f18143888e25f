package supervisor

import (
	"net"
	"net/netip"
	"slices"
)

// Peer is who holds the other end of a connection.
type Peer struct {
	Member
	// Program: it is a process that the owner of some run has started. Doubt: it may be
	// one, and it cannot be told of which run.
	Program, Doubt bool
}

// ends are the addresses of a TCP connection whose other end is on this machine.
func ends(conn net.Conn) (own, other netip.AddrPort, here bool) {
	l, ok := conn.LocalAddr().(*net.TCPAddr)
	r, too := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !too {
		return own, other, false
	}
	own, other = plain(l.AddrPort()), plain(r.AddrPort())
	if other.Addr().IsLoopback() || other.Addr() == own.Addr() {
		return own, other, true
	}
	all, err := net.InterfaceAddrs()
	return own, other, err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(other.Addr().AsSlice())
	})
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
