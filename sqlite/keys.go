package sqlite

import (
	"context"
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
)

// Keys are the public keys that sign new envelopes: what intent.draft publishes.
type Keys struct {
	User     journal.PublicKey `json:"user"`
	Executor journal.PublicKey `json:"executor"`
}

// keyring is what this process may sign with.
type keyring struct {
	private map[string]*journal.PrivateKey // without "user" unless it was asked for
	public  map[string]journal.PublicKey
}

// signer is the private key that a draft's From names.
func (k *keyring) signer(from string) (*journal.PrivateKey, error) {
	if key, ok := k.private[from]; ok {
		return key, nil
	}
	if from == journal.User {
		return nil, errors.New("this process does not hold the user's key: sign as executor, on behalf of someone")
	}
	return nil, fmt.Errorf("%q signs nothing: user or executor does", from)
}

// openKeys loads the keys in dir and makes those that are missing. The caller
// holds the lock of the store.
func openKeys(dir string, withUser bool) (*keyring, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %w: give this user the right to write the folder", flow.ErrReadOnly, err)
	}
	if err := refuseWider(dir, 0o700); err != nil {
		return nil, err
	}
	ring := &keyring{private: map[string]*journal.PrivateKey{}, public: map[string]journal.PublicKey{}}
	for _, name := range []string{journal.Executor, journal.User} {
		if err := ring.open(dir, name, name == journal.Executor || withUser); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// open loads one pair, or its public half where the private one is not wanted.
func (k *keyring) open(dir, name string, private bool) error {
	public := filepath.Join(dir, name+".pub")
	if !private {
		if pub, err := readPublic(public); !errors.Is(err, fs.ErrNotExist) {
			k.public[name] = pub
			return err
		}
	}
	key, err := openPrivate(filepath.Join(dir, name+".key"))
	if err != nil {
		return err
	}
	if private {
		k.private[name] = key
	}
	k.public[name] = key.Public()
	if pub, err := readPublic(public); err == nil && pub == key.Public() {
		return nil
	}
	return writeFile(public, key.Public().File(), 0o644)
}

// refuseWider refuses a key that others on this machine can read.
func refuseWider(name string, most fs.FileMode) error {
	have, err := modeBeyond(name, most)
	if err == nil && have != 0 {
		err = fmt.Errorf("%s has permissions %04o, others may have read the key: run chmod %04o %[1]s, or move it away to get a new one", name, have, most)
	}
	return err
}

// openPrivate reads a seed that nobody else can read, or makes one.
func openPrivate(name string) (*journal.PrivateKey, error) {
	key, err := readPrivate(name)
	if errors.Is(err, fs.ErrNotExist) {
		return makePrivate(name)
	}
	if wider := refuseWider(name, 0o600); wider != nil {
		return nil, wider
	}
	return key, err
}

func readPrivate(name string) (*journal.PrivateKey, error) {
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

func makePrivate(name string) (*journal.PrivateKey, error) {
	key, err := journal.GenerateKey()
	if err != nil {
		return nil, err
	}
	return key, writeFile(name, append(hex.AppendEncode(nil, key.Seed()), '\n'), 0o600)
}

func readPublic(name string) (pub journal.PublicKey, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return pub, err
	}
	if pub, err = journal.ParsePublicKey(strings.TrimSpace(string(text))); err != nil {
		return pub, fmt.Errorf("%s: %w: move it away, it is made again", name, err)
	}
	return pub, nil
}

// loadPublic is openKeys for a store that may not be written.
func loadPublic(dir string) *keyring {
	ring := &keyring{public: map[string]journal.PublicKey{}}
	for _, name := range []string{journal.Executor, journal.User} {
		if pub, err := readPublic(filepath.Join(dir, name+".pub")); err == nil {
			ring.public[name] = pub
		}
	}
	return ring
}

// remember keeps the public keys in the store, where verify finds them even
// after the files have gone.
func (k *keyring) remember(c *conn) error {
	for name, pub := range k.public {
		if err := c.exec(`INSERT OR IGNORE INTO keys (id, name, public) VALUES (?, ?, ?)`, pub.ID().String(), name, pub[:]); err != nil {
			return err
		}
	}
	return nil
}

// Keys are the public keys of this store's user and executor.
func (s *Store) Keys() Keys {
	return Keys{User: s.keys.public[journal.User], Executor: s.keys.public[journal.Executor]}
}

// Secret is a key for a purpose other than signing. Every process that may sign as
// the executor of this store is given the same; nil: this one may not.
func (s *Store) Secret(purpose string) []byte {
	executor := s.keys.private[journal.Executor]
	if executor == nil {
		return nil
	}
	key, err := hkdf.Key(sha256.New, executor.Seed(), nil, "tipstaff "+purpose, sha256.Size)
	if err != nil { // only of a key longer than the hash can give
		panic(err)
	}
	return key
}

// PublicKeys are all that were ever made here, in a fixed order.
func (s *Store) PublicKeys(ctx context.Context) (keys []journal.PublicKey, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(r row) error {
			if len(r.bytes(0)) != len(journal.PublicKey{}) {
				return fmt.Errorf("%w: %s: a stored key has the wrong size", ErrDamaged, s.dir.database())
			}
			keys = append(keys, journal.PublicKey(r.bytes(0)))
			return nil
		}, `SELECT public FROM keys ORDER BY id`)
	})
	return keys, err
}
