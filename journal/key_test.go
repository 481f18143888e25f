package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first test vector of RFC 8032, section 7.1.
func TestKeyOfKnownSeed(t *testing.T) {
	var seed [32]byte
	if !decodeLowerHex(seed[:], "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60") {
		t.Fatal("bad vector")
	}
	k, err := NewPrivateKey(seed[:])
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.Public().String(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"; got != want {
		t.Errorf("public key %s, want %s", got, want)
	}
	if !bytes.Equal(k.Seed(), seed[:]) {
		t.Error("the seed is not given back")
	}
	public := k.Public()
	if k.Public().ID() != Sum(public[:]) {
		t.Error("a key's id is the digest of its bytes")
	}
}

func TestPrivateKeyIsNotPrinted(t *testing.T) {
	k := testKey(t, 0xab)
	for _, format := range []string{"%v", "%s", "%+v", "%#v"} {
		if s := fmt.Sprintf(format, k); strings.Contains(s, "abab") || strings.Contains(s, "171 171") || strings.Contains(s, "0xab, 0xab") {
			t.Errorf("%s shows the seed: %s", format, s)
		}
	}
}

func TestKeysAreRefused(t *testing.T) {
	if _, err := NewPrivateKey(make([]byte, 31)); err == nil {
		t.Error("a short seed was accepted")
	}
	good := testKey(t, 1).Public().String()
	for _, s := range []string{"", good[1:], good[2:], good + "00", strings.Repeat("0", len(good)), strings.ToUpper(good), good + "\n"} {
		if _, err := ParsePublicKey(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestGeneratedKeysDiffer(t *testing.T) {
	a, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	b, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if a.Public() == b.Public() {
		t.Error("two keys are the same")
	}
}

func TestReadPublicKeys(t *testing.T) {
	dir := t.TempDir()
	user, executor := testKey(t, 1).Public(), testKey(t, 2).Public()
	for name, content := range map[string][]byte{"user.pub": user.File(), "executor.pub": executor.File(), "user.key": []byte("secret")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := ReadPublicKeys(dir)
	if err != nil || len(keys) != 2 || keys[0] != executor || keys[1] != user {
		t.Errorf("of the folder: %v, %v", keys, err)
	}
	keys, err = ReadPublicKeys(filepath.Join(dir, "user.pub"))
	if err != nil || len(keys) != 1 || keys[0] != user {
		t.Errorf("of the file: %v, %v", keys, err)
	}
	if _, err := ReadPublicKeys(filepath.Join(dir, "user.key")); err == nil {
		t.Error("a file that holds no key was accepted")
	}
	if _, err := ReadPublicKeys(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file was accepted")
	}
}
