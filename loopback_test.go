package tipstaff_test

import (
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::1%lo": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "192.168.0.1": false, "fe80::1%lo": false, "::ffff:10.0.0.1": false,
		"127.1": false, "localhost.example.com": false, "example.com": false,
	} {
		if got := tipstaff.Loopback(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}

func TestSocketPath(t *testing.T) {
	for addr, want := range map[string]string{
		"unix:/run/t.sock":   "/run/t.sock",
		"unix:///run/t.sock": "/run/t.sock",
		"unix:t.sock":        "t.sock",
		"unix:":              "",
		"127.0.0.1:50051":    "",
		"unix.example:50051": "",
	} {
		if got := tipstaff.SocketPath(addr); got != want {
			t.Errorf("%s names the socket %q, want %q", addr, got, want)
		}
	}
}
