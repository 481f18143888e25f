// Package journal is the byte format of a run's journal: records, the hash chain
// over them, signed envelopes, payload references, exports, and the verification
// of all of these.
//
// A record is the exact bytes that were stored; nobody encodes it again. Each is
// chained to the one before, and a few records, the envelopes, are signed over
// the chain's head, so that few signatures prove many records.
//
// The package stands alone: of ours it imports canon alone, knows no store and no
// lifecycle, and reads no clock, so that a third party can verify with it and
// nothing else. README.md beside this file specifies every byte; a verifier can
// be written from it in any language, and testdata/verify.py is one.
//
// Start at [Record] and [Hash.Next], then [PrivateKey.Seal], [Verifier] and
// [VerifyExport].
package journal
