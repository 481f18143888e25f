package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/supervisor"
)

// servedPage is the file in a workspace's store folder in which its daemon says where its page
// is, so that others on this machine can send a person there. What it says holds for as long
// as the daemon lives.
const servedPage = "serve.page"

type pageServed struct {
	Page   string     `json:"page"`
	Daemon flow.Owner `json:"daemon"`
}

// tellPage says where the page of this daemon is, until forget. A daemon without one that a
// browser can open says nothing.
func (s *session) tellPage(told cli.Listening) (forget func(), err error) {
	at := pageAddress(told)
	if told.Page == nil || at == "" {
		return func() {}, nil
	}
	text, err := json.Marshal(pageServed{at, supervisor.Self("daemon", "")})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, servedPage)
	beside := file + ".tmp"
	if err := os.WriteFile(beside, text, 0o600); err != nil {
		return nil, err
	}
	forget = func() {
		if now, err := os.ReadFile(file); err == nil && string(now) == string(text) { // else it is another daemon's
			_ = os.Remove(file)
		}
	}
	return forget, os.Rename(beside, file)
}

// page is the address of the page of a daemon of this workspace; "": no daemon has one.
func (s *session) page() string {
	file := filepath.Join(s.dir, servedPage)
	text, err := os.ReadFile(file)
	info, ierr := os.Stat(file)
	var served pageServed
	if err != nil || ierr != nil || json.Unmarshal(text, &served) != nil || !supervisor.Alive(served.Daemon, info.ModTime(), time.Now()) {
		return ""
	}
	return served.Page
}

// pageAddress is where a browser on this machine finds a daemon; "": it listens at a socket.
func pageAddress(told cli.Listening) string {
	host, port, err := net.SplitHostPort(told.Addr)
	if err != nil || strings.HasPrefix(told.Addr, "unix:") {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	scheme := "http://"
	if told.TLS {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port)
}
