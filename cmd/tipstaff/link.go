package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
)

// signinLink asks the daemon that listens at an address for a link to its page.
func signinLink(ctx context.Context, o cli.ServeOptions) (cli.SigninLink, error) {
	var link cli.SigninLink
	token := cmp.Or(os.Getenv("TIPSTAFF_TOKEN"), workspaceToken(o.Open.Workspace))
	if token == "" {
		return link, tipstaff.Errorf(tipstaff.Forbidden, "there is no token for a link").WithHint("set TIPSTAFF_TOKEN, or name the workspace of the daemon with --workspace")
	}
	at, client, err := pageClient(o)
	if err != nil {
		return link, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/signin-codes", nil)
	if err != nil {
		return link, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := client.Do(r)
	if err != nil {
		return link, (&tipstaff.Error{Code: tipstaff.StoreUnavailable, Message: "no daemon answers at " + at + ": " + reason(err), Err: err}).WithHint("tipstaff serve starts one; --addr says where it listens")
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, tipstaff.MaxReply))
	if err == nil && res.StatusCode == http.StatusCreated {
		err = json.Unmarshal(text, &link)
	}
	switch {
	case err != nil:
		return link, err
	case res.StatusCode == http.StatusUnauthorized:
		var why struct {
			Error struct{ Message string }
		}
		_ = json.Unmarshal(text, &why) // what is not our answer says nothing
		return link, tipstaff.Errorf(tipstaff.Forbidden, "the daemon at %s does not let the token in: %s", at, tipstaff.Printable(why.Error.Message)).WithHint("set TIPSTAFF_TOKEN to one of its tokens, or name its workspace with --workspace")
	case res.StatusCode == http.StatusNotFound:
		return link, tipstaff.Errorf(tipstaff.InvalidArgument, "the daemon at %s has no page", at).WithHint("it was started with --no-page, or is of an older version")
	case res.StatusCode != http.StatusCreated:
		return link, fmt.Errorf("the daemon at %s answers %s", at, res.Status)
	}
	return link, nil
}

// reason is why a request failed, without the address that it was for.
func reason(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return err.Error()
}

// pageClient is who asks the daemon, and where. A daemon that listens everywhere is asked on
// this machine.
func pageClient(o cli.ServeOptions) (at string, client *http.Client, err error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return "", nil, tipstaff.Errorf(tipstaff.InvalidArgument, "%s is no address that a browser can open", o.Addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	transport := &http.Transport{DisableKeepAlives: true}
	if o.TLSCert == "" {
		return "http://" + net.JoinHostPort(host, port), &http.Client{Transport: transport}, nil
	}
	if transport.TLSClientConfig, err = daemonTLS(o.TLSCert); err != nil {
		return "", nil, err
	}
	return "https://" + net.JoinHostPort(host, port), &http.Client{Transport: transport}, nil
}

// daemonTLS trusts whoever shows the certificate that the daemon was given, by whatever name
// it is asked: it may be one of nobody's authority, and the daemon one that listens everywhere.
func daemonTLS(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: "--tls-cert cannot be used: " + err.Error(), Err: err}
	}
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "--tls-cert %s is not a certificate in PEM", file)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // of authorities and names: VerifyConnection knows the certificate itself
		VerifyConnection: func(c tls.ConnectionState) error {
			if !bytes.Equal(c.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("it shows another certificate than %s", file)
			}
			return nil
		},
	}, nil
}
