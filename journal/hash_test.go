package journal

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestHashText(t *testing.T) {
	// The SHA-256 of nothing and of "abc" are published test vectors.
	for in, want := range map[string]string{
		"":    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"abc": "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	} {
		h := Sum([]byte(in))
		if h.String() != want || h.Hex() != want[7:] {
			t.Errorf("Sum(%q) = %s, want %s", in, h, want)
		}
		var back Hash
		b, err := json.Marshal(h)
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || back != h {
			t.Errorf("%s through JSON: %s, %v", h, back, err)
		}
	}
}

func TestChain(t *testing.T) {
	var zero Hash
	if !zero.IsZero() || zero.Next([]byte("a")).IsZero() {
		t.Error("only the hash before the first record is zero")
	}
	if got, want := zero.Next([]byte("a")), Sum(append(make([]byte, 32), 'a')); got != want {
		t.Errorf("hash(1) is %s, want %s", got, want)
	}
}

func TestParseHashRefuses(t *testing.T) {
	good := Sum(nil).String()
	for _, s := range []string{"", good[7:], good[:len(good)-1], good + "0", strings.ToUpper(good),
		"sha256:" + strings.ToUpper(good[7:]), "sha512:" + good[7:], "sha256:" + strings.Repeat("g", 64)} {
		if _, err := ParseHash(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}
