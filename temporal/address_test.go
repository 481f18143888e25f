package temporal

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestAddresses(t *testing.T) {
	for _, c := range []struct{ address, hostPort, namespace, queue string }{
		{"temporal://db.example", "db.example:7233", "default", "tipstaff"},
		{"temporal://db.example/", "db.example:7233", "default", "tipstaff"},
		{"temporal://db.example:1/prod", "db.example:1", "prod", "tipstaff"},
		{"temporal://[::1]:1/prod.a1b2c?queue=night", "[::1]:1", "prod.a1b2c", "night"},
	} {
		to, err := parse(c.address, func(string) string { return "" })
		if err != nil || to.HostPort != c.hostPort || to.Namespace != c.namespace || to.queue != c.queue || to.ConnectionOptions.TLS != nil {
			t.Errorf("%s: %+v, %v", c.address, to, err)
		}
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, address := range []string{"", "secret.example:7233", "postgres://secret/x", "temporal://", "temporal:secret", "temporal:///secret", "temporal://host/a/secret", "temporal://host:secret/", "temporal://host/#secret",
		"temporal://user:secret@host/", "temporal://host/?%zz=secret", "temporal://host?tsl=secret", "temporal://host?tls=1&tls=1", "temporal://host?queue=", "temporal://host?tls=secret"} {
		if _, err := parse(address, func(string) string { return "" }); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestCredentialsComeFromTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		address   string
		env       map[string]string
		key, tls  bool
		complaint string
	}{
		"none":                 {address: "temporal://host"},
		"wanted":               {address: "temporal://host?tls=1", tls: true},
		"wanted by variable":   {address: "temporal://host", env: map[string]string{"TEMPORAL_TLS": "true"}, tls: true},
		"the address decides":  {address: "temporal://host?tls=0", env: map[string]string{"TEMPORAL_TLS": "true"}},
		"a key is encrypted":   {address: "temporal://host", env: map[string]string{"TEMPORAL_API_KEY": "k"}, key: true, tls: true},
		"no such certificate":  {address: "temporal://host", env: map[string]string{"TEMPORAL_TLS_CLIENT_CERT_PATH": "no/cert", "TEMPORAL_TLS_CLIENT_KEY_PATH": "no/key"}, complaint: "TEMPORAL_TLS_CLIENT_CERT_PATH"},
		"a key of certificate": {address: "temporal://host", env: map[string]string{"TEMPORAL_TLS_CLIENT_KEY_PATH": "no/key"}, complaint: "TEMPORAL_TLS_CLIENT_KEY_PATH"},
		"no such authority":    {address: "temporal://host", env: map[string]string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "no/ca"}, complaint: "TEMPORAL_TLS_SERVER_CA_CERT_PATH"},
		"no authority":         {address: "temporal://host", env: map[string]string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "address_test.go"}, complaint: "holds no certificate"},
	} {
		to, err := parse(c.address, func(name string) string { return c.env[name] })
		if c.complaint != "" {
			if err == nil || !strings.Contains(err.Error(), c.complaint) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || (to.Credentials != nil) != c.key || (to.ConnectionOptions.TLS != nil) != c.tls {
			t.Errorf("%s: key %v, TLS %v, %v", name, to.Credentials, to.ConnectionOptions.TLS, err)
		}
	}
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Dial(ctx, "temporal://127.0.0.1:1", Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "the Temporal server at 127.0.0.1:1 does not answer") {
		t.Errorf("%v", err)
	}
}
