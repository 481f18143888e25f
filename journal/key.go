package journal

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PublicKey is an ed25519 public key.
type PublicKey [ed25519.PublicKeySize]byte

// ParsePublicKey reads 64 lower-case hex digits, not all of them 0.
func ParsePublicKey(s string) (PublicKey, error) {
	var k PublicKey
	if !decodeLowerHex(k[:], s) || k.IsZero() {
		return PublicKey{}, fmt.Errorf("%.80q is not a public key: 64 lower-case hex digits, not all 0", s)
	}
	return k, nil
}

// ID is the digest of the key's 32 bytes: what an envelope's key says.
func (k PublicKey) ID() Hash { return Sum(k[:]) }

// String is 64 lower-case hex digits: what intent.draft publishes.
func (k PublicKey) String() string { return hex.EncodeToString(k[:]) }

// IsZero reports whether k is no key.
func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// MarshalText is String.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParsePublicKey.
func (k *PublicKey) UnmarshalText(b []byte) (err error) {
	*k, err = ParsePublicKey(string(b))
	return err
}

// File is what a .pub file of the key holds: its digits and a line feed.
func (k PublicKey) File() []byte { return []byte(k.String() + "\n") }

// ReadPublicKeys reads a .pub file, or every .pub file of a folder, in the order
// of their names. These are the keys a verifier trusts; they must come from
// elsewhere than the journal they are to prove.
func ReadPublicKeys(path string) ([]PublicKey, error) {
	path, err := filepath.EvalSymlinks(path) // whoever names a link means what it leads to
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = pubFiles(path); err != nil {
			return nil, err
		}
	}
	var keys []PublicKey
	for _, file := range files {
		b, err := readRegular(filepath.Dir(file), filepath.Base(file), len(PublicKey{}.File()))
		if err != nil {
			return nil, err
		}
		key, err := ParsePublicKey(strings.TrimSuffix(string(b), "\n"))
		if err != nil { // it tells what stands there
			return nil, fmt.Errorf("%s is not a public key: 64 lower-case hex digits, not all 0", file)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func pubFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".pub" {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// PrivateKey signs envelopes.
type PrivateKey struct{ key ed25519.PrivateKey }

// NewPrivateKey makes the key of a 32-byte seed.
func NewPrivateKey(seed []byte) (*PrivateKey, error) {
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("a key's seed has %d bytes, not %d", ed25519.SeedSize, len(seed))
	}
	return &PrivateKey{ed25519.NewKeyFromSeed(seed)}, nil
}

// GenerateKey makes a new key.
func GenerateKey() (*PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return &PrivateKey{key}, nil
}

// Public is the half that may be shown.
func (k *PrivateKey) Public() PublicKey { return PublicKey(k.key.Public().(ed25519.PublicKey)) }

// Seed is the 32 bytes to keep secret, from which NewPrivateKey makes the key.
func (k *PrivateKey) Seed() []byte { return k.key.Seed() }

// String keeps the secret out of logs.
func (k *PrivateKey) String() string { return "private key of " + k.Public().ID().String() }

// GoString keeps it out of %#v too.
func (k *PrivateKey) GoString() string { return k.String() }
