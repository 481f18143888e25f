package cli

import (
	"context"
	"testing"
	"time"
)

// served has the bench serve, and keeps what it was asked for.
func served(b *bench, told Listening) *ServeOptions {
	asked := new(ServeOptions)
	b.env.Serve = func(_ context.Context, o ServeOptions, announce func(Listening) error) error {
		*asked = o
		return announce(told)
	}
	return asked
}

func TestServeSaysWhereItListens(t *testing.T) {
	b := newBench(t)
	asked := served(b, Listening{Addr: "127.0.0.1:4712", GRPCAddr: "127.0.0.1:4711", TokenFile: ".tipstaff/serve.token", TakenUp: 2})
	b.run(t, 0, "serve", "--pipelines", "p", "--default-pipeline", "d", "--shutdown-timeout", "5s")
	equal(t, "stdout", b.out.String(), "http 127.0.0.1:4712 (plain text)\ngrpc 127.0.0.1:4711 (plain text)\n")
	equal(t, "stderr", b.err.String(), "the token is in .tipstaff/serve.token; tipstaff serve --token prints it\n2 runs taken up again\n")
	if asked.Addr != "127.0.0.1:8080" || asked.GRPCAddr != "127.0.0.1:50051" || asked.Pipelines != "p" || asked.DefaultPipeline != "d" || asked.ShutdownTimeout != 5*time.Second {
		t.Errorf("it serves with %+v", asked)
	}

	b = newBench(t)
	served(b, Listening{Addr: "[::1]:2", GRPCAddr: "[::1]:1", TLS: true})
	b.run(t, 0, "serve", "--grpc-addr", "[::1]:0", "--json")
	equal(t, "stdout", b.out.String(), `{"addr":"[::1]:2","grpc_addr":"[::1]:1","tls":true,"taken_up":0}`+"\n")
}

// A link that signs somebody in is shown to who sits at a terminal, and kept out of logs.
func TestServeShowsThePage(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		b := newBench(t)
		b.env.StderrTTY = terminal
		served(b, Listening{Addr: "127.0.0.1:1", GRPCAddr: "127.0.0.1:2", Page: func() string { return "http://127.0.0.1:1/ui/signin?code=ABC" }})
		b.run(t, 0, "serve")
		want := ""
		if terminal {
			want = "the web page is at http://127.0.0.1:1/ui/signin?code=ABC\n"
		}
		equal(t, "stderr", b.err.String(), want)
	}
}

func TestServeLink(t *testing.T) {
	b := newBench(t)
	b.env.Serve = func(context.Context, ServeOptions, func(Listening) error) error {
		t.Error("it serves")
		return nil
	}
	b.env.SigninLink = func(_ context.Context, o ServeOptions) (SigninLink, error) {
		return SigninLink{URL: "http://" + o.Addr + "/ui/signin?code=ABC", ExpiresAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, nil
	}
	b.run(t, 0, "serve", "--link", "--addr", "127.0.0.1:7")
	equal(t, "stdout", b.out.String(), "http://127.0.0.1:7/ui/signin?code=ABC\n")
	b.out.Reset()
	b.run(t, 0, "serve", "--link", "--json")
	equal(t, "stdout", b.out.String(), `{"url":"http://127.0.0.1:8080/ui/signin?code=ABC","expires_at":"2026-01-02T03:04:05Z"}`+"\n")
}

func TestServeDoesNotBegin(t *testing.T) {
	for name, args := range map[string][]string{
		"all addresses":       {"--grpc-addr", ":50051"},
		"another machine":     {"--grpc-addr", "192.0.2.1:50051"},
		"a name":              {"--grpc-addr", "example.com:50051"},
		"no address":          {"--grpc-addr", "here"},
		"a socket nowhere":    {"--grpc-addr", "unix:"},
		"HTTP for everybody":  {"--addr", "0.0.0.0:8080"},
		"no HTTP":             {"--addr", "8080"},
		"a socket with TLS":   {"--grpc-addr", "unix:s", "--tls-cert", "c.pem", "--tls-key", "k.pem"},
		"half of TLS":         {"--tls-cert", "c.pem"},
		"clients without TLS": {"--tls-client-ca", "ca.pem"},
		"a default of none":   {"--default-pipeline", "d"},
		"no time to stop":     {"--shutdown-timeout", "0s"},
		"an argument":         {"now"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.env.Serve = func(context.Context, ServeOptions, func(Listening) error) error {
				t.Error("it serves")
				return nil
			}
			b.run(t, 2, append([]string{"serve"}, args...)...)
		})
	}
	for name, args := range map[string][]string{
		"plain text that was asked for": {"--grpc-addr", "0.0.0.0:0", "--allow-plaintext"},
		"encrypted":                     {"--grpc-addr", "0.0.0.0:0", "--tls-cert", "c.pem", "--tls-key", "k.pem"},
		"this machine":                  {"--grpc-addr", "localhost:0"},
		"a socket":                      {"--grpc-addr", "unix:/run/tipstaff.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			asked := served(b, Listening{})
			b.run(t, 0, append([]string{"serve"}, args...)...)
			if asked.GRPCAddr != args[1] {
				t.Errorf("it serves with %+v", asked)
			}
		})
	}
}
