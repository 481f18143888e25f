package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// awkward has every character that some encoding changes.
const awkward = `s3cr/t "two\words" & <more>?é+=`

func TestCredentialIsFoundInEveryForm(t *testing.T) {
	r := New(map[string]string{"TOK": awkward, "SHORT": "abc"})
	forHTML, _ := json.Marshal(awkward)
	inner, _ := json.Marshal(map[string]string{"token": awkward})
	outer, _ := json.Marshal(string(inner))
	for name, text := range map[string]string{
		"plain":            awkward,
		"between letters":  "x" + awkward + "y" + awkward,
		"query":            url.QueryEscape(awkward),
		"path":             url.PathEscape(awkward),
		"lower escapes":    strings.NewReplacer("%2F", "%2f", "%5C", "%5c", "%3C", "%3c", "%3E", "%3e", "%3F", "%3f", "%C3", "%c3", "%2B", "%2b", "%3D", "%3d").Replace(url.QueryEscape(awkward)),
		"quote of Python":  strings.ReplaceAll(url.PathEscape(awkward), "%2F", "/"),
		"every byte":       everyByte(awkward, "%%%02x"),
		"mixed escapes":    "s3%63r%2ft%20\"tw%6F%5cwo%72ds%22+%26%20<mor%65%3e%3Fé%2b=",
		"escaped twice":    url.QueryEscape(url.QueryEscape(awkward)),
		"JSON of a URL":    quoted(strings.ReplaceAll(url.PathEscape(awkward), "%2F", `\/`)),
		"JSON three times": quoted(quoted(quoted(awkward))),
		"base64 in lines":  lined(base64.StdEncoding.EncodeToString([]byte(awkward)), 7, "\r\n"),
		"base64 in words":  lined(base64.URLEncoding.EncodeToString([]byte("x"+awkward)), 5, " "),
		"base64 in a URL":  lined(url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("ab"+awkward))), 76, "%0A"),
		"base64 in JSON":   quoted(lined(base64.StdEncoding.EncodeToString([]byte(awkward)), 4, "\n\t")),
		"JSON":             quoted(awkward),
		"JSON for HTML":    string(forHTML),
		"JSON in JSON":     string(outer),
		"slashes":          strings.ReplaceAll(quoted(awkward), "/", `\/`),
		"base64":           base64.StdEncoding.EncodeToString([]byte(awkward)),
		"base64 for URLs":  base64.RawURLEncoding.EncodeToString([]byte(awkward)),
		"base64 after 1":   base64.StdEncoding.EncodeToString([]byte(":" + awkward)),
		"base64 in 2 of 3": base64.StdEncoding.EncodeToString([]byte("ab" + awkward + "cd")),
		"HTML":             html.EscapeString(awkward),
		"HTML twice":       html.EscapeString(html.EscapeString(awkward)),
		"HTML by number":   everyRune(awkward, "&#%d;"),
		"HTML in hex":      everyRune(awkward, "&#x%04X;"),
		"HTML in JSON":     quoted(html.EscapeString(awkward)),
		"base64 twice":     base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(awkward)))),
		"base64 in base64": base64.RawURLEncoding.EncodeToString([]byte("{\"auth\": \"" + base64.StdEncoding.EncodeToString([]byte("me:"+awkward)) + "\"}")),
	} {
		got := r.Text(text)
		if !strings.Contains(got, "$env:TOK") || strings.Contains(got, "s3cr") || strings.Contains(got, "cjNjci") || strings.Contains(got, "zM2Ny") || strings.Contains(got, "words") {
			t.Errorf("%s: %s became %s", name, text, got)
		}
	}
	for _, text := range []string{"abc", "nothing here", "$env:TOK", "s3cr"} {
		if got := r.Text(text); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// quoted is a text as a JSON string, without the quotes.
func quoted(text string) string {
	q := flow.JSON(text)
	return string(q[1 : len(q)-1])
}

// lined breaks a text into lines.
func lined(text string, width int, sep string) string {
	var b strings.Builder
	for len(text) > width {
		b.WriteString(text[:width] + sep)
		text = text[width:]
	}
	return b.String() + text
}

func everyRune(text, format string) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// Of a value of several lines each is found, also where programs print them one by one.
func TestEveryLineOfAKeyIsFound(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\nq83Wb\n-----END PRIVATE KEY-----\n"
	for name, value := range map[string]string{"lines": key, "lines of Windows": strings.ReplaceAll(key, "\n", "\r\n"), "escaped": strings.ReplaceAll(key, "\n", `\n`),
		"in JSON": `{"type": "account", "private_key": "` + strings.ReplaceAll(key, "\n", `\n`) + `"}`} {
		r := New(map[string]string{"KEY": value})
		for line := range strings.Lines(key) {
			got := r.Text("stderr: " + line)
			if secret := len(line) > leastLine && line[0] != '-'; secret != strings.Contains(got, "$env:KEY") {
				t.Errorf("%s: %q became %q", name, line, got)
			}
		}
		for _, whole := range []string{value, quoted(value), html.EscapeString(value)} {
			if got := r.Text("<" + whole + ">"); got != "<$env:KEY>" {
				t.Errorf("%s: it became %q", name, got)
			}
		}
		if got := r.Text(strings.ReplaceAll(key, "\n", "\n    ")); strings.Contains(got, "MIIE") || strings.Contains(got, "MzEf") {
			t.Errorf("%s: indented it became %q", name, got)
		}
	}
}

func everyByte(text, format string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, format, text[i])
	}
	return strings.ReplaceAll(b.String(), " ", "")
}

// In whatever form and wherever it is cut, a credential is found.
func TestCredentialIsFoundAcrossPieces(t *testing.T) {
	r := New(map[string]string{"TOK": awkward, "EMOJI": "pass-\U0001F600-word"})
	for _, form := range []string{awkward, url.QueryEscape(awkward), everyByte(awkward, "%%%02X"), quoted(quoted(awkward)),
		lined(base64.StdEncoding.EncodeToString([]byte(awkward)), 9, "\r\n"), quoted(lined(base64.StdEncoding.EncodeToString([]byte("y"+awkward)), 9, "\r\n")),
		html.EscapeString(html.EscapeString(awkward)), everyRune(awkward, "&#%d;"),
		"pass-\U0001F600-word", `pass-\ud83d\ude00-word`, `pass-\\uD83D\\uDE00-word`} {
		whole := "before " + form + " after"
		want := r.Text(whole)
		if !strings.Contains(want, "$env:") {
			t.Errorf("%s became %s", whole, want)
		}
		for size := 1; size < len(whole); size++ {
			s, got := Stream{Redactor: r}, ""
			for rest := whole; rest != ""; {
				n := min(size, len(rest))
				got += s.Next(rest[:n])
				rest = rest[n:]
			}
			if got += s.Rest(); got != want {
				t.Errorf("%s in pieces of %d became %s", whole, size, got)
			}
		}
	}
}

// What only resembles a credential stays as it is, and is not waited for.
func TestWhatIsNoCredentialStays(t *testing.T) {
	r := New(map[string]string{"TOK": "s3cret-token", "BACK": `a\\b\c\"d%25e+f`})
	for _, text := range []string{"s3cret-toke", "s3cret token", "%73%33cret-toke%6", `s3cret\`, "s3cret&amp;", "&amp &lt;;&", "&#115;3cret-toke&#", "100 %, 50%2", `C:\Users\x`, "a\\b", "+++ %% \\\\"} {
		s := Stream{Redactor: r}
		if got := s.Next(text) + s.Rest(); got != text || r.Text(text) != text {
			t.Errorf("%s became %s, %s", text, got, r.Text(text))
		}
	}
	for _, text := range []string{`a\\b\c\"d%25e+f`, quoted(`a\\b\c\"d%25e+f`), url.QueryEscape(`a\\b\c\"d%25e+f`)} {
		if got := r.Text(text); got != "$env:BACK" {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// JSON stays JSON, and keeps its bytes where there is no credential.
func TestRedactedJSONIsJSON(t *testing.T) {
	r := New(map[string]string{"TOK": awkward, "PIN": "12345678"})
	every := ""
	for _, c := range awkward {
		every += strings.ReplaceAll(`\u`+string([]byte{hexDigit(c >> 12), hexDigit(c >> 8), hexDigit(c >> 4), hexDigit(c)}), " ", "0")
	}
	for in, want := range map[string]string{
		`{"a":"` + every + `"}`:                            `{"a":"$env:TOK"}`,
		`{"n": 12345678, "m":[-12345678.5,1234567]}`:       `{"n": "$env:PIN", "m":["-$env:PIN.5",1234567]}`,
		`{"` + quoted(awkward) + `": true}`:                `{"$env:TOK": true}`,
		`{"t":"é\u00e9\/ \ud83d\ude00","n":1e3,"z":null} `: `{"t":"é\u00e9\/ \ud83d\ude00","n":1e3,"z":null} `,
		"no JSON " + awkward:                               "no JSON $env:TOK",
	} {
		if got := string(r.Bytes([]byte(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	var none *Redactor
	if got := none.Bytes([]byte(awkward)); string(got) != awkward {
		t.Errorf("without credentials it became %s", got)
	}
}

func hexDigit(c rune) byte { return "0123456789abcdef"[c&15] }

// FuzzRedact: JSON stays JSON; the credential is not in it in any string; what is
// cut into pieces comes to the same as what is not.
func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"a":"hello s3cret-token","b":[1,"s3cret-token",{"s3cret-token":null}]}`), uint8(3))
	f.Add([]byte(`"czNjcmV0LXRva2Vu"`), uint8(1))
	f.Add([]byte(`s3cret-tokes3cret-token`), uint8(5))
	f.Add([]byte(`{"\u0073\u0033\u0063\u0072\u0065\u0074\u002d\u0074\u006f\u006b\u0065\u006e":12345678}`), uint8(7))
	r := New(map[string]string{"TOK": "s3cret-token", "PIN": "12345678"})
	f.Fuzz(func(t *testing.T, data []byte, piece uint8) {
		got := r.Bytes(bytes.Clone(data))
		if json.Valid(data) {
			var v any
			dec := json.NewDecoder(bytes.NewReader(got))
			dec.UseNumber() // there are some that no float holds
			if err := dec.Decode(&v); err != nil {
				t.Fatalf("%q became %q: %v", data, got, err)
			}
			again, err := json.Marshal(v)
			if err != nil || bytes.Contains(again, []byte("s3cret-token")) {
				t.Errorf("%q became %q", data, got)
			}
		}
		s := Stream{Redactor: r}
		var out strings.Builder
		for rest := string(data); rest != ""; {
			n := min(len(rest), int(piece)+1)
			out.WriteString(s.Next(rest[:n]))
			rest = rest[n:]
		}
		out.WriteString(s.Rest())
		if strings.Contains(out.String(), "s3cret-token") || strings.Contains(out.String(), "czNjcmV0LXRva2Vu") {
			t.Errorf("%q in pieces of %d became %q", data, int(piece)+1, out.String())
		}
		if r.Text(string(data)) == string(data) && out.String() != string(data) {
			t.Errorf("%q has no credential and became %q", data, out.String())
		}
	})
}

// The credential of a URL is one by itself, too.
func TestPasswordOfAURLIsFoundAlone(t *testing.T) {
	r := New(map[string]string{"DB": "postgres://me:hunter2-long@db/x"})
	for _, text := range []string{"postgres://me:hunter2-long@db/x", "login with hunter2-long failed", base64.StdEncoding.EncodeToString([]byte("me:hunter2-long"))} {
		if got := r.Text(text); !strings.Contains(got, "$env:DB") || strings.Contains(got, "hunter2-long") {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func BenchmarkText(b *testing.B) {
	r := New(map[string]string{"TOK": awkward, "KEY": "sk-ant-0123456789abcdefghijklmnopqrstuvwxyz"})
	text := strings.Repeat("A line of what programs print: https://host/path?a=b&c=d {\"x\": \"y\\n\"}\n", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if r.Text(text) != text {
			b.Fatal("it is another")
		}
	}
}
