package temporal

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/tipstaff/tipstaff"
)

const (
	defaultPort      = "7233"
	defaultNamespace = "default"
	defaultQueue     = "tipstaff"
)

// target is what an address and the environment say about a server.
type target struct {
	client.Options
	queue string
}

// errAddress repeats nothing of the address, which may hold a password.
var errAddress = tipstaff.Errorf(tipstaff.InvalidArgument, "the address of an engine is like temporal://host:7233/namespace")

// parse reads temporal://host[:port][/namespace][?tls=1&queue=name].
func parse(address string, getenv func(string) string) (target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "temporal" || u.Hostname() == "" || u.Opaque != "" || u.Fragment != "" || strings.Contains(strings.Trim(u.Path, "/"), "/") {
		return target{}, errAddress
	}
	if u.User != nil {
		return target{}, tipstaff.Errorf(tipstaff.InvalidArgument, "the address of an engine holds no user or password: TEMPORAL_API_KEY in the environment is the place for a key")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return target{}, errAddress
	}
	for name, values := range query {
		if !slices.Contains([]string{"tls", "queue"}, name) || len(values) != 1 || values[0] == "" {
			return target{}, tipstaff.Errorf(tipstaff.InvalidArgument, "the address of an engine has tls=1 and queue=NAME behind its ?, each once, and no %s", strconv.Quote(name))
		}
	}
	t := target{queue: cmp.Or(query.Get("queue"), defaultQueue)}
	t.HostPort = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), defaultPort))
	t.Namespace = cmp.Or(strings.Trim(u.Path, "/"), defaultNamespace)
	key := getenv("TEMPORAL_API_KEY")
	if key != "" {
		t.Credentials = client.NewAPIKeyStaticCredentials(key)
	}
	encrypt, err := strconv.ParseBool(cmp.Or(query.Get("tls"), getenv("TEMPORAL_TLS"), "false"))
	if err != nil {
		return target{}, tipstaff.Errorf(tipstaff.InvalidArgument, "whether to use TLS, tls of an engine's address or TEMPORAL_TLS, is 1 or 0")
	}
	t.ConnectionOptions.TLS, err = encryption(encrypt || key != "", getenv)
	return t, err
}

// encryption is by the files that the environment names; nil: plain text.
func encryption(wanted bool, getenv func(string) string) (*tls.Config, error) {
	cert, key, ca := getenv("TEMPORAL_TLS_CLIENT_CERT_PATH"), getenv("TEMPORAL_TLS_CLIENT_KEY_PATH"), getenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH")
	if !wanted && cert == "" && key == "" && ca == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: getenv("TEMPORAL_TLS_SERVER_NAME")}
	if cert != "" || key != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("TEMPORAL_TLS_SERVER_CA_CERT_PATH: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("TEMPORAL_TLS_SERVER_CA_CERT_PATH: %s holds no certificate", ca)
		}
	}
	return c, nil
}
