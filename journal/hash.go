package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Hash is a SHA-256: of a document (a digest), or of a chain up to a record. The
// zero Hash is where every chain begins.
type Hash [sha256.Size]byte

const hashPrefix = "sha256:"

// Sum is the digest of b.
func Sum(b []byte) Hash { return sha256.Sum256(b) }

// Next is the chain's hash after record, where h is the hash before it:
// SHA-256 of h's 32 bytes and the record's.
func (h Hash) Next(record []byte) Hash {
	d := sha256.New()
	d.Write(h[:])
	d.Write(record)
	var next Hash
	d.Sum(next[:0])
	return next
}

// ParseHash reads sha256: and 64 lower-case hex digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if digits, ok := strings.CutPrefix(s, hashPrefix); !ok || !decodeLowerHex(h[:], digits) {
		return Hash{}, fmt.Errorf("%.80q is not a digest: sha256: and 64 lower-case hex digits", s)
	}
	return h, nil
}

// String is sha256: and 64 lower-case hex digits.
func (h Hash) String() string { return string(h.append(nil)) }

// Hex is the 64 digits alone, as blobs are named in an export.
func (h Hash) Hex() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether h is the hash before the first record.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return h.append(nil), nil }

// UnmarshalText is ParseHash.
func (h *Hash) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHash(string(b))
	return err
}

func (h Hash) append(dst []byte) []byte {
	return hex.AppendEncode(append(dst, hashPrefix...), h[:])
}

// decodeLowerHex fills dst from s, which must have exactly the digits for it.
// Upper case is refused: one value has one spelling.
func decodeLowerHex(dst []byte, s string) bool {
	if len(s) != 2*len(dst) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}
