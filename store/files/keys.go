package files

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// OpenKeys loads the keys in dir and makes those that are missing. The caller
// holds the lock of the store.
func OpenKeys(dir string, withUser bool) (*store.Keyring, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %w: give this user the right to write the folder", flow.ErrReadOnly, err)
	}
	if err := refuseWider(dir, 0o700); err != nil {
		return nil, err
	}
	ring := &store.Keyring{Private: map[string]*journal.PrivateKey{}, Public: map[string]journal.PublicKey{}, Place: dir}
	for _, name := range []string{journal.Executor, journal.User} {
		if err := openPair(ring, dir, name, name == journal.Executor || withUser); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// openPair loads one pair, or its public half where the private one is not wanted.
func openPair(k *store.Keyring, dir, name string, private bool) error {
	public := filepath.Join(dir, name+".pub")
	if !private {
		if pub, err := ReadPublic(public); !errors.Is(err, fs.ErrNotExist) {
			k.Public[name] = pub
			return err
		}
	}
	key, err := openPrivate(filepath.Join(dir, name+".key"))
	if err != nil {
		return err
	}
	if private {
		k.Private[name] = key
	}
	k.Public[name] = key.Public()
	if pub, err := ReadPublic(public); err == nil && pub == key.Public() {
		return nil
	}
	return Write(public, key.Public().File(), 0o644)
}

// ErrExposed: others on this machine may have read a private key.
var ErrExposed = errors.New("the keys are refused")

// refuseWider refuses a key that others on this machine can read.
func refuseWider(name string, most fs.FileMode) error {
	have, err := ModeBeyond(name, most)
	if err == nil && have != 0 {
		err = fmt.Errorf("%w: %s has permissions %04o, others may have read the key: run chmod %04o %[2]s, or move it away to get a new one", ErrExposed, name, have, most)
	}
	return err
}

// openPrivate reads a seed that nobody else can read, or makes one.
func openPrivate(name string) (*journal.PrivateKey, error) {
	key, err := ReadPrivate(name)
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = journal.GenerateKey(); err != nil {
			return nil, err
		}
		return key, Write(name, append(hex.AppendEncode(nil, key.Seed()), '\n'), 0o600)
	}
	if wider := refuseWider(name, 0o600); wider != nil {
		return nil, wider
	}
	return key, err
}

// ReadPrivate reads the seed of a key.
func ReadPrivate(name string) (*journal.PrivateKey, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s is no key (64 hexadecimal digits): restore it, or move it away to get a new one", name)
	}
	key, err := journal.NewPrivateKey(seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: restore it, or move it away to get a new one", name, err)
	}
	return key, nil
}

// ReadPublic reads the public half of a pair.
func ReadPublic(name string) (pub journal.PublicKey, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return pub, err
	}
	if pub, err = journal.ParsePublicKey(strings.TrimSpace(string(text))); err != nil {
		return pub, fmt.Errorf("%s: %w: move it away, it is made again", name, err)
	}
	return pub, nil
}

// LoadPublic is OpenKeys for a store that may not be written.
func LoadPublic(dir string) *store.Keyring {
	ring := &store.Keyring{Public: map[string]journal.PublicKey{}, Place: dir}
	for _, name := range []string{journal.Executor, journal.User} {
		if pub, err := ReadPublic(filepath.Join(dir, name+".pub")); err == nil {
			ring.Public[name] = pub
		}
	}
	return ring
}

// ErrOtherKey: a key is there already, and is another.
var ErrOtherKey = errors.New("there is another key")

// CopyKeys copies the keys in one folder to another, which is made if need be. It replaces
// none: ErrOtherKey.
func CopyKeys(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range []string{journal.User, journal.Executor} {
		for suffix, mode := range map[string]fs.FileMode{".key": 0o600, ".pub": 0o644} {
			text, err := os.ReadFile(filepath.Join(from, name+suffix))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			place := filepath.Join(to, name+suffix)
			if there, err := os.ReadFile(place); err == nil && !bytes.Equal(bytes.TrimSpace(there), bytes.TrimSpace(text)) {
				return fmt.Errorf("%w: %s", ErrOtherKey, place)
			}
			if err := Write(place, text, mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// Secret is a key for a purpose other than signing. Every process that may sign as
// the executor of a store is given the same; nil: this one may not.
func Secret(ring *store.Keyring, purpose string) []byte {
	executor := ring.Private[journal.Executor]
	if executor == nil {
		return nil
	}
	key, err := hkdf.Key(sha256.New, executor.Seed(), nil, "tipstaff "+purpose, sha256.Size)
	if err != nil { // only of a key longer than the hash can give
		panic(err)
	}
	return key
}
