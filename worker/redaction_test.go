package worker

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"
)

// What a worker says of its own credentials is looked for as what servers say is.
func TestCredentialsOfWorkersAreFoundInEveryForm(t *testing.T) {
	const key = `sk-a"b&c/0123456789`
	clean := redaction(nil, map[string]string{"KEY": key, "PEM": "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END KEY-----"})
	said, err := json.Marshal(map[string]string{"said": "it is " + key, "html": html.EscapeString(key)})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{key, string(said), url.QueryEscape(key), base64.StdEncoding.EncodeToString([]byte(key)), "stderr: MIIEvQIBADANBgkqhkiG9w0BAQEF"} {
		got := string(clean([]byte(text)))
		if strings.Contains(got, "0123456789") || strings.Contains(got, "MIIE") || !strings.Contains(got, "$env:") {
			t.Errorf("%s became %s", text, got)
		}
	}
	if got := clean(said); !json.Valid(got) {
		t.Errorf("it is no JSON any more: %s", got)
	}
}
